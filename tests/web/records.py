"""An HTTP client for the records of a pipeline."""

from tests.support.bundles import Json
from tests.support.http import Answer, ask
from tests.support.web_system import WebSystem


class Records:
    """A client for a pipeline's records."""

    def __init__(self, web_system: WebSystem, uid: str = "") -> None:
        self.web_system, self.uid = web_system, uid or web_system.deploy()

    def __call__(
        self, method: str, path: str = "", body: bytes | Json = b"", **headers: str
    ) -> Answer:
        return ask(
            self.web_system.url, method, f"/v1/pipelines/{self.uid}/records{path}", body, headers
        )

    def create(self, content: str, **headers: str) -> Json:
        answer = self("POST", "", {"content": content}, **headers)
        assert answer.status == 201, answer
        return answer.json
