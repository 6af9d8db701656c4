"""Turns over crashes of the worker: no turn is doubled, and no tool acts twice."""

import random
import time
from collections import Counter
from collections.abc import Iterator

import orjson
import pytest

from tests.support.agents import Asked
from tests.support.model_server import Answer, Json, ModelServer, calls
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

TURNS, KILLS = 50, 20
FACTS = (
    "SELECT r.key, t.good FROM records AS r LEFT JOIN tallies AS t USING (guid) "
    "WHERE r.kind = 'memory.fact' ORDER BY r.row"
)
EPISODES = "SELECT count(*) FROM records WHERE kind = 'memory.episode'"


@pytest.fixture
def system() -> Iterator[TestSystem]:
    with TestSystem() as system:
        system.start_worker(outgoing={"open_for": ["models"]})
        yield system


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as model:
        yield model


def remembers_once(request: Json) -> Answer:
    """Remember the user's text, then answer, as a model with a tool does."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return f"noted: {last['content']}"
    return calls(("remember", {"key": last["content"], "value": "yes"}))


def crash_at(system: TestSystem, model: ModelServer, number: int) -> None:
    """Kill the worker while it waits for a request of the model, and start another one."""
    model.hold.clear()
    wait_for(lambda: len(model.requests) == number, f"request {number} is open")
    system.workers[-1].kill()
    model.hold.set()
    system.start_worker(outgoing={"open_for": ["models"]})


def test_a_turn_continues_after_its_last_committed_response(
    system: TestSystem, model: ModelServer
) -> None:
    model.reply = remembers_once
    asked = Asked(system, model, tools=["remember"], conversation_memory=True)
    model.hold.clear()
    ident = asked.send("tea")
    wait_for(lambda: model.requests, "the first request is open")
    model.hold.set()
    crash_at(system, model, 2)

    assert asked.answer(ident) == "noted: Remembered: tea = yes (created)"
    # The first response was committed, the second one was not.
    steps = [sum(one["role"] == "tool" for one in sent["messages"]) for sent in model.requests]
    assert steps == [0, 1, 1]
    assert model.requests[1] == model.requests[2]
    assert system.rows(asked.uid, FACTS) == [("tea", None)]


def test_a_bus_that_is_killed_in_a_turn_delays_only_the_answer(
    system: TestSystem, model: ModelServer
) -> None:
    model.reply = remembers_once
    asked = Asked(system, model, tools=["remember"], conversation_memory=True)
    model.hold.clear()
    ident = asked.send("tea")
    wait_for(lambda: model.requests, "the first request is open")

    system.kill_server()
    wait_for(lambda: "bus_lost" in system.workers[-1].output, "the worker notices it")
    model.hold.set()
    time.sleep(0.5)  # the response cannot be committed meanwhile
    system.server.start()

    assert asked.answer(ident) == "noted: Remembered: tea = yes (created)"
    assert len(model.requests) == 2
    assert system.rows(asked.uid, FACTS) == [("tea", None)]


def test_the_responses_of_a_turn_are_deleted_with_its_answer(
    system: TestSystem, model: ModelServer
) -> None:
    model.reply = remembers_once
    asked = Asked(system, model, tools=["remember"])

    asked.ask("tea")

    system.client.await_quiet(asked.uid)
    assert system.rows(asked.uid, "SELECT thread FROM checkpoint_writes") == []


def test_an_episode_without_a_turn_is_abandoned_at_the_next_start(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model)
    asked.ask("tea")
    lost, other = f"{asked.uid}/1-1.1+0", "run of another program"
    for execution in (lost, other):
        asked.operate("episodes.begin", {"agent_id": "a", "execution_id": execution})
    model.hold.clear()
    ident = asked.send("cake")
    wait_for(lambda: len(model.requests) == 2, "the request is open")

    system.workers[-1].kill()
    model.hold.set()
    system.start_worker(outgoing={"open_for": ["models"]})

    asked.answer(ident)
    found = asked.operate("episodes.list", {})["items"]
    codes = {one["execution_id"]: one["error_code"] for one in found if one["error_code"]}
    assert codes == {lost: "abandoned"}
    assert [one["ended_at"] is None for one in found if one["execution_id"] == other] == [True]
    assert sum(one["success"] for one in found) == 2


@pytest.mark.slow
def test_a_turn_that_takes_too_long_keeps_the_conversation() -> None:
    with TestSystem() as system, ModelServer() as model:
        system.start_worker(outgoing={"open_for": ["models"]}, limits={"deferred_call_s": 5})
        asked = Asked(system, model, conversation_memory=True)
        asked.ask("one")
        model.hold.clear()
        assert (
            asked.fault("two")
            == "DeferredCallTooSlow: it took longer than 5 s (worker.deferred_call_s)"
        )
        model.hold.set()

        assert asked.ask("three") == "you said: three"
        assert [text for _, text in model.sent[-1]][:2] == ["one", "you said: one"]
        assert system.rows(asked.uid, "SELECT task FROM checkpoint_writes") == []


@pytest.mark.slow
def test_twenty_crashes_in_fifty_turns_double_nothing(
    system: TestSystem, model: ModelServer
) -> None:
    model.reply = remembers_once
    asked = Asked(system, model, tools=["remember"], conversation_memory=True)
    chance = random.Random(7)
    idents = [asked.send(f"fact {number}") for number in range(TURNS)]
    for _ in range(KILLS):
        answered = len(answers_of(asked))
        wait_for(lambda before=answered: len(answers_of(asked)) > before, "progress", 60)
        time.sleep(chance.uniform(0, 0.15))
        system.workers[-1].kill()
        system.start_worker(outgoing={"open_for": ["models"]})

    texts = [asked.answer(ident) for ident in idents]

    assert texts == [f"noted: Remembered: fact {number} = yes (created)" for number in range(TURNS)]
    assert system.rows(asked.uid, FACTS) == [(f"fact {number}", None) for number in range(TURNS)]
    assert system.rows(asked.uid, EPISODES) == [(TURNS,)]
    requests = Counter(orjson.dumps(request["messages"]) for request in model.requests)
    repeated = sum(count - 1 for count in requests.values())
    assert len(requests) == 2 * TURNS
    assert repeated <= KILLS
    asked.ask("last")
    said = [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "user"]
    assert said == [*(f"fact {number}" for number in range(TURNS)), "last"]


def answers_of(asked: Asked) -> set[str]:
    """Return the ids of the answers. A crash may repeat an answer under its id."""
    return {said.mid for said in asked.system.client.log(asked.uid) if said.sender == "bot"}
