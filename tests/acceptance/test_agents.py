"""The statements about agents of the specification, on a real worker with a stub of the model."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bundles import make_agent, make_bundle, make_uid
from tests.support.house import House
from tests.support.model_server import ModelServer
from tests.support.waiting import wait_for

FOLLOW = "[System instructions — follow these for the entire conversation]"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with House() as house:
        worker = house.start_worker(may_call_private=True)
        yield house
        assert worker.stop() == 0


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as model:
        yield model


class Asked:
    """A pipeline with one agent, which hears users."""

    def __init__(self, house: House, model: ModelServer, **args: Any) -> None:
        self.house, self.model, self.uid = house, model, make_uid()
        args = {"url": model.url, "model": "stub"} | args
        house.deploy(make_bundle(self.uid, make_agent("bot", "agent", args, hears="User")))

    def ask(self, text: str, **how: str) -> str:
        """Return the answer to a message."""
        ident = self.house.client.enter(self.uid, text, **how)

        def find() -> list[str]:
            log = self.house.client.log(self.uid)
            return [said.text for said in log if said.sender == "bot" and said.input == ident]

        return wait_for(find, f"{self.uid} answers {text}")[0]


def test_a_turn(house: House, model: ModelServer) -> None:
    asked = Asked(house, model, system_prompt="P")

    assert asked.ask("one") == "you said: one"
    assert model.sent == [
        [
            ("system", "P"),
            ("user", f"{FOLLOW}\nP"),
            ("user", "one"),
        ]
    ]
