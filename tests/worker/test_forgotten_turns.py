"""users.forget takes the turns of a user from the store and the bus, and leaves those of others."""

import threading
from collections.abc import Iterator

import pytest

from tests.support.agents import Asked
from tests.support.erasures import await_erasure, files_with
from tests.support.model_server import Answer, Json, ModelServer, calls, echo
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

ALICE = "Alice4321"


@pytest.fixture(scope="module")
def system() -> Iterator[TestSystem]:
    with TestSystem() as system:
        system.start_worker(outgoing={"open_for": ["models"]})
        yield system


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as model:
        yield model


def forget(asked: Asked, user: str) -> None:
    asked.operate("users.forget", {"id": user})
    await_erasure(asked.system, asked.uid)


def texts(asked: Asked) -> list[str]:
    return [said.text for said in asked.system.client.log(asked.uid)]


@pytest.mark.parametrize(("name", "kept"), [("User", 2), ("bot", 4)])
def test_a_user_named_like_a_sender_takes_nobody_along(
    system: TestSystem, model: ModelServer, name: str, kept: int
) -> None:
    asked = Asked(system, model, conversation_memory=True)
    asked.ask("from ada", username="Ada Lovelace")
    asked.ask("from nobody")

    forget(asked, f"chat:{name}")

    said = ["from ada", "you said: from ada", "from nobody", "you said: from nobody"]
    assert texts(asked) == said[:kept]
    assert asked.operate("episodes.list", {})["total"] == kept // 2


def test_the_same_words_of_others_stay(system: TestSystem, model: ModelServer) -> None:
    asked, menu = Asked(system, model, conversation_memory=True), "what is on the menu today"
    for text in ("yes", menu):
        asked.ask(text, username=ALICE)
    asked.ask("yes", username="Carol")
    model.hold.clear()
    count = len(model.requests)
    bob, dan = asked.send("yes", username="Bob"), asked.send(f"{menu} please", username="Dan")
    wait_for(lambda: len(model.requests) == count + 2, "their turns run")

    forget(asked, f"chat:{ALICE}")
    model.hold.set()

    assert asked.answer(bob) == "you said: yes"
    assert asked.answer(dan) == f"you said: {menu} please"
    said = ["yes", "you said: yes", "yes", f"{menu} please"]
    assert texts(asked)[:4] == said and len(texts(asked)) == 6
    assert files_with(system, ALICE.lower().encode()) == []


def test_a_running_turn_of_the_user_ends_without_a_trace(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, tools=["recall"], conversation_memory=True)
    released = threading.Event()

    def reply(request: Json) -> Answer:
        last = request["messages"][-1]
        if last["role"] == "tool":
            released.wait(20)
            return "raceanswer"
        asks = last["content"] == "racequestion"
        return calls(("recall", {"key": "racekey"})) if asks else echo(request)

    model.reply = reply
    asked.send("racequestion", username="racer1234")
    wait_for(lambda: len(model.requests) == 2, "the turn waits for its answer")
    assert system.rows(asked.uid, "SELECT * FROM checkpoint_writes")

    forget(asked, "chat:racer1234")
    released.set()

    assert asked.ask("hello", username="Bob") == "you said: hello"
    assert texts(asked) == ["hello", "you said: hello"]
    threads = system.rows(asked.uid, "SELECT DISTINCT thread FROM checkpoints")
    assert len(threads) == 1 and not system.rows(asked.uid, "SELECT * FROM checkpoint_writes")
    for word in (b"racequestion", b"racekey", b"raceanswer"):
        assert files_with(system, word) == []


def test_facts_of_the_turns_of_the_user_are_erased(system: TestSystem, model: ModelServer) -> None:
    asked = Asked(system, model, tools=["remember"])
    for name, user in (("pet", "faith1234"), ("tea", "Bob")):
        model.script.append(calls(("remember", {"key": name, "value": f"the {name}"})))
        asked.ask("note it", username=user)
    pet = asked.operate("facts.get", {"key": "pet"})
    asked.operate("facts.delete_many", {"ids": [pet["id"]]})
    asked.operate("facts.set", {"key": "who", "value": "chat:faith1234 likes tea"})

    forget(asked, "chat:faith1234")

    assert [one["key"] for one in asked.operate("facts.list", {})["items"]] == ["tea"]
    assert files_with(system, b"the pet") == []


def test_calls_with_the_same_ids_in_other_turns_stay(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, tools=["recall"], conversation_memory=True)
    for text in ("my dog", "greet zora98765", "my fish"):
        model.script.append(calls(("recall", {"key": text})))
        asked.ask(text, username="Keeper")

    forget(asked, "telegram:zora98765")

    asked.ask("the last", username="Keeper")
    roles = [one["role"] for one in model.requests[-1]["messages"]]
    assert roles.count("tool") == 2
