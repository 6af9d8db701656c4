"""Stepwise queries: recipes run in parts between batches, within bounds."""

import asyncio
from typing import Any

import pytest

from memrelay.bus.client.url import Address
from memrelay.bus.request import NewCall, Requester
from tests.support.bundles import make_bundle, make_uid
from tests.support.calls import WITHIN_S, call, call_all, make_call, refused
from tests.support.system import TestSystem

EVENTS = 1000
LOG = {"type": "log_search", "instance": "log", "limit": EVENTS}
DEPTH = 24
# The most weights, each of a deeply nested field: more than 20 ms for 1,000 items.
SCORE = {
    "type": "score",
    "source": "log_search",
    "weights": {f"payload.{'a.' * DEPTH}f{number}": 0.5 for number in range(25)},
    "topK": 1,
}


@pytest.fixture(scope="module")
def uid(system: TestSystem) -> str:
    """A pipeline with a log of 1,000 events."""
    uid = make_uid()
    system.deploy(make_bundle(uid))
    nested: dict[str, Any] = {"f0": 1}
    for _ in range(DEPTH):
        nested = {"a": nested}
    event = {"stream_id": "s", "event_type": "e", "payload": {"message": "m"} | nested}
    for _ in range(EVENTS // 100):
        call(
            system,
            uid,
            "events.append",
            {"instance": "log", "auto_create": True, "events": [event] * 100},
        )
    return uid


def run(*pipeline: dict[str, Any]) -> dict[str, Any]:
    return {"definition": {"id": "r", "label": "r", "retrieval": {"pipeline": list(pipeline)}}}


def test_a_recipe_is_stored_and_executed(system: TestSystem, uid: str) -> None:
    stored = run(LOG | {"limit": 2})["definition"]
    call(system, uid, "recipes.create", {"definition": stored})

    result = call(system, uid, "recipes.execute", {"id": "r"})

    assert (result["success"], result["formattedOutput"]) == (True, "- m\n- m")


def test_invalid_calls_are_refused_and_others_are_answered(system: TestSystem, uid: str) -> None:
    assert refused(system, uid, "recipes.execute", {"id": "absent"})[0] == "not_found"
    assert (
        refused(system, uid, "recipes.execute", run({"type": "lof_search"}))[0] == "invalid_input"
    )
    assert refused(system, uid, "recipes.execute", {"intent": 1})[0] == "refused"
    assert refused(system, uid, "recipes.execute", run(LOG) | {"intent": {"query": 1}}) == (
        "invalid_input",
        "intent.query must be a text",
    )


def test_a_run_that_takes_too_long_ends_with_timeout(system: TestSystem, uid: str) -> None:
    result = call(system, uid, "recipes.execute", run(LOG, *[SCORE | {"onError": "skip"}] * 63))

    assert (result["success"], result["error"]["code"]) == (False, "timeout")
    assert 1 < len(result["stepResults"]) < 64


def test_more_than_1000_items_end_a_run(system: TestSystem, uid: str) -> None:
    twice = {"type": "merge", "sources": ["log_search", "log_search"]}

    result = call(system, uid, "recipes.execute", run(LOG, twice))

    assert (result["error"]["alias"], result["error"]["code"]) == ("merge", "too_many_items")


def test_other_calls_are_answered_during_a_run(system: TestSystem, uid: str) -> None:
    slow = make_call(uid, "recipes.execute", run(LOG, *[SCORE] * 40))
    others = [make_call(uid, "records.list"), make_call(uid, "records.create", {"content": "x"})]

    order = asyncio.run(_order_of_answers(system, [slow, *others]))

    assert order[-1] == "recipes.execute"
    assert sorted(order[:2]) == ["records.create", "records.list"]


def test_runs_of_several_callers_end_with_the_same_results(system: TestSystem, uid: str) -> None:
    asked = make_call(uid, "recipes.execute", run(LOG, *[SCORE] * 3))

    answers = call_all(system, *[asked] * 8)

    outputs = [answer["output"] for answer in answers]
    assert all(one["success"] for one in outputs)
    assert all(one["stepResults"] == outputs[0]["stepResults"] for one in outputs)


async def _order_of_answers(system: TestSystem, calls: list[NewCall]) -> list[str]:
    """Send calls in order, and return their operations in the order of the answers."""
    order: list[str] = []
    address = Address(path=str(system.client.socket), password=system.client.password)
    async with Requester(address) as requester:

        async def ask(one: NewCall) -> None:
            assert "output" in await requester.call(one, WITHIN_S)
            order.append(one.op)

        await asyncio.gather(*map(ask, calls))
    return order
