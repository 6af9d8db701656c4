"""A pipeline with one agent and a stub of its model, on a real worker."""

from typing import Any

import orjson

from tests.support.bundles import Json, make_agent, make_bundle, make_uid
from tests.support.calls import call
from tests.support.model_server import ModelServer
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

FOLLOW = "[System instructions — follow these for the entire conversation]"


def with_prompt(prompt: str, *messages: tuple[str, Any]) -> list[tuple[str, Any]]:
    """Return the messages of a request with a prompt."""
    return [("system", prompt), ("user", f"{FOLLOW}\n{prompt}"), *messages]


class Asked:
    """A pipeline whose agent `bot` listens to users. `before` are agents that precede it."""

    def __init__(
        self,
        system: TestSystem,
        model: ModelServer,
        *before: Json,
        senders: Any = "User",
        on: str = "chat",
        **args: Any,
    ) -> None:
        self.system, self.model, self.uid = system, model, make_uid()
        self._before, self._senders, self._on = before, senders, on
        self._args = {"url": model.url, "model": "stub"} | args
        self._version = 0
        self.deploy_again()

    def deploy_again(self, **args: Any) -> None:
        """Deploy the bundle with these further arguments of the agent."""
        self._args |= args
        self._version += 1
        bot = make_agent("bot", "agent", self._args, senders=self._senders, on=self._on)
        probe = make_agent("plus", "add_1", {"amount": self._version}, on="probe", to="answers")
        self.system.deploy(make_bundle(self.uid, *self._before, bot, probe))
        wait_for(self._runs, f"version {self._version} of {self.uid} runs")

    def _runs(self) -> bool:
        client = self.system.client
        ident = client.enter(self.uid, "0", swarm="probe")
        client.await_done(self.uid, ident)
        return client.log(self.uid, "answers")[-1].text == str(self._version)

    def send(self, text: str, *, username: str = "User", **part: Any) -> str:
        """Send a message of a person and return the input's id."""
        said = {"text": text, "username": username, "type": "text/plain"} | part
        envelope = orjson.dumps({"from": "User", "id": "me", "args": [said]})
        return self.system.client.enter_raw(self.uid, envelope)

    def answer(self, ident: str) -> str:
        """Wait for the answer to an input."""

        def find() -> list[str]:
            log = self.system.client.log(self.uid)
            return [said.text for said in log if said.sender == "bot" and said.input == ident]

        return wait_for(find, f"{self.uid} answers {ident}")[0]

    def ask(self, text: str, **part: Any) -> str:
        """Send a message and return the answer."""
        return self.answer(self.send(text, **part))

    def fault(self, text: str) -> str:
        """Send a message and return the error in the answer."""
        error: str = orjson.loads(self.ask(text))["error"]
        return error

    def operate(self, name: str, given: Json) -> Any:
        """Call an operation of the pipeline."""
        return call(self.system, self.uid, name, given)
