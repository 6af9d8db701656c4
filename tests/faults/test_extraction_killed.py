"""Row 41: the blocks extract and summarize with a stub of their model: kills of the worker, a
service that hangs, and answers that harm nothing.
"""

import itertools
import time
from collections import Counter
from collections.abc import Iterator

import orjson
import pytest

from tests.support.bundles import Json, make_agent, make_bundle
from tests.support.calls import call
from tests.support.extraction import FACT, state_facts
from tests.support.model_server import ModelServer, Raw
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

UID, USERS = "talking", 5
STORE = f"instances/{UID}/memories"
OPEN = {"open_for": ["models"]}


@pytest.fixture
def system() -> Iterator[TestSystem]:
    with TestSystem() as system:
        yield system


def make_talking(url: str, **args: object) -> Json:
    settings = {"url": url, "model": "stub", "turns": 10, "mode": "create", **args}
    extract = make_agent("extract", "extract", settings, senders="User", on="run", to="work")
    write = make_agent("write", "memory_write", {"memory_id": STORE}, senders="User")
    return make_bundle(UID, extract | {"wf_interval_secs": 1}, write)


def answer_facts(request: Json) -> Json:
    """Return one fact for each turn, as the model's message."""
    time.sleep(0.02)
    return {"role": "assistant", "content": orjson.dumps({"facts": state_facts(request)}).decode()}


def add_turns(system: TestSystem, count: int) -> set[str]:
    """Add turns of several users. Return the facts that they become."""
    for user in range(USERS):
        texts = [f"thing {user}-{number}" for number in range(count // USERS)]
        messages = [{"content": text} for text in texts]
        call(system, UID, "turns.add", {"messages": messages, "user": f"u{user}", "thread": "t"})
    return {
        FACT.format(f"thing {user}-{number}")
        for user in range(USERS)
        for number in range(count // USERS)
    }


def count_facts(system: TestSystem) -> Counter[str]:
    sql = "SELECT content FROM records WHERE kind = 'entry'"
    return Counter(content for (content,) in system.rows(UID, sql))


def run_until_done(system: TestSystem, expected: set[str], kills: int) -> None:
    """Run the extraction to its end, and kill the worker each time that it has made some facts."""
    for number in itertools.count():
        goal = len(expected) * min(number + 1, kills + 1) // (kills + 1)
        wait_for(lambda goal=goal: count_facts(system).total() >= goal, f"{goal} facts", 60)
        if number >= kills:
            return
        system.workers[-1].kill()
        system.start_worker(outgoing=OPEN)


@pytest.mark.slow
@pytest.mark.parametrize(("turns", "kills"), [(1000, 20)])
def test_turns_become_facts_once_each_over_kills(
    system: TestSystem, turns: int, kills: int
) -> None:
    with ModelServer(reply=answer_facts) as model:
        system.start_worker(bundles=[make_talking(model.url)], outgoing=OPEN)
        expected = add_turns(system, turns)
        run_until_done(system, expected, kills)
        status = call(system, UID, "extraction.status")["items"][0]

        assert count_facts(system) == Counter(expected)
        assert (status["created"], status["turns_waiting"], status["rejected"]) == (turns, 0, 0)
        assert len(system.workers) == kills + 1
        owners = system.rows(
            UID,
            "SELECT count(*) FROM evidence JOIN records AS e ON e.guid = record "
            "JOIN records AS t ON t.guid = turn WHERE e.data ->> 'user' = t.owner",
        )
        assert owners == [(turns,)]
        assert system.dead_letters(UID) == []


def test_a_service_that_hangs_delays_no_message(system: TestSystem) -> None:
    with ModelServer(reply=answer_facts) as model:
        model.hold.clear()
        system.start_worker(bundles=[make_talking(model.url)], outgoing=OPEN)
        add_turns(system, 10)
        wait_for(lambda: model.requests, "the model is asked")

        guids = [system.client.ask(UID, f"note {number}")[-1].text for number in range(20)]
        answered = len(model.requests)
        model.hold.set()
        wait_for(lambda: count_facts(system).total() == 10, "the facts")

        assert answered == 1 and len({*guids}) == 20


def test_hostile_answers_over_http_harm_nothing(system: TestSystem) -> None:
    too_long = Raw(200, b'{"choices": [{"message": {"content": "' + b"a" * 1_000_000 + b'"}}]}')
    foreign = {"role": "assistant", "content": '{"facts": [{"text": "a", "turns": [7]}]}'}
    with ModelServer(too_long, "no JSON", foreign, reply=answer_facts) as model:
        system.start_worker(bundles=[make_talking(model.url, retries=2)], outgoing=OPEN)
        expected = add_turns(system, 10)
        wait_for(lambda: count_facts(system).total() == 8, "the facts of the other batches")
        status = call(system, UID, "extraction.status")["items"][0]

        assert {*count_facts(system)} < expected
        assert (status["rejected"], status["rejected_turns"], status["failures"]) == (1, 2, 0)
        assert model.requests[0]["response_format"] == {"type": "json_object"}
        assert system.dead_letters(UID) == []
