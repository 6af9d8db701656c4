"""A web server that is called by SOAT's paths."""

from typing import NamedTuple

from tests.support.bundles import Json
from tests.support.http import Answer, ask
from tests.support.keys import ApiKey
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

EMAIL = "Customer prefers email over phone calls"
MEMORIES = "/api/v1/memories"
FACTS = "/api/v1/memories/{memory}/entries"


class Soat(NamedTuple):
    """A web server with the built-in embedding model."""

    web_system: WebSystem
    uid: str

    def __call__(
        self,
        method: str,
        path: str,
        body: Json | bytes = b"",
        key: ApiKey | None = None,
        **headers: str,
    ) -> Answer:
        return ask(self.web_system.url, method, path, body, headers | (key.headers if key else {}))

    def await_embedder(self) -> None:
        """Wait until writes are compared by vectors: a write waits for the model only for a while,
        and is compared by its words after that.
        """
        other = Soat(self.web_system, self.web_system.deploy())

        def knows_the_meaning() -> bool:
            memory = other.make()
            other.write(memory, EMAIL)
            again = other.write(memory, "The customer likes email more than phone")
            return bool(again.json["action"] == "skipped")

        wait_for(knows_the_meaning, "the model is loaded")

    def make(self, name: str = "Customer Preferences", **keys: object) -> str:
        answer = self("POST", MEMORIES, {"project_id": self.uid, "name": name} | keys)
        assert answer.status == 201, answer
        return str(answer.json["id"])

    def write(self, memory: str, content: str, **keys: object) -> Answer:
        return self("POST", FACTS.format(memory=memory), {"content": content} | keys)

    def names(self, query: str) -> list[str]:
        return [
            one["name"] for one in self("GET", f"{MEMORIES}?project_id={self.uid}&{query}").json
        ]
