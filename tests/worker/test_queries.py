"""Queries: read-only calls on a channel, answered between batches within limits."""

import asyncio
import json
import time
from contextlib import ExitStack
from typing import Any

import pytest
from msgspec import Raw

from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusBusy, NoAnswer, NoOwner
from memrelay.bus.request import NewCall, Question, Requester
from memrelay.memory.operations import all_operations
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.worker.run.queries import Query, QueryQueue
from tests.support.bundles import make_bundle, make_uid
from tests.support.calls import call, call_all, make_call, refused
from tests.support.client import input_of
from tests.support.system import TestSystem
from tests.support.waiting import LATE_S, PATIENCE_S, wait_for


def make_query(uid: str) -> Query:
    operation, question = all_operations()["records.list"], Question("records.list", "", Raw(b"{}"))
    checked = check(make_bundle(uid)).bundle
    assert checked is not None
    return Query(operation, question, "", "none", 0.0, Plan(checked))


def test_pipelines_take_turns() -> None:
    queue = QueryQueue()
    for uid in ("busy", "busy", "busy", "calm", "calm"):
        queue.add(make_query(uid))

    taken = [queue.take() for _ in range(3)]
    queue.put_back(taken[1:])

    assert [query.plan.uid for query in taken] == ["busy", "calm", "busy"]
    order = [queue.take().plan.uid for _ in range(len(queue))]
    assert (order, len(queue)) == (["calm", "busy", "calm", "busy"], 0)


def deploy(system: TestSystem) -> str:
    uid = make_uid()
    system.deploy(make_bundle(uid))
    return uid


def test_many_concurrent_callers_get_their_own_answers(system: TestSystem) -> None:
    uid = deploy(system)
    made = [
        answer["output"]
        for answer in call_all(
            system,
            *[make_call(uid, "records.create", {"content": str(number)}) for number in range(200)],
        )
    ]

    answers = call_all(
        system, *[make_call(uid, "records.get", {"guid": one["guid"]}) for one in made]
    )

    assert [answer["output"] for answer in answers] == made


def test_a_query_leaves_nothing_in_the_input(system: TestSystem) -> None:
    uid = deploy(system)

    assert call(system, uid, "records.list") == {"items": [], "next_cursor": None, "total": 0}
    assert not system.client.redis.xinfo_stream(input_of(uid))["entries-added"]


def test_an_invalid_query_is_refused_and_others_are_answered(system: TestSystem) -> None:
    uid = deploy(system)

    asked = [
        make_call(uid, "records.get", {"guid": "x"}),
        make_call(uid, "records.list", {"limit": 0}),
        make_call(uid, "records.list"),
    ]

    assert [list(answer) for answer in call_all(system, *asked * 20)] == [
        ["error"],
        ["error"],
        ["output"],
    ] * 20
    assert refused(system, uid, "records.get", {})[1] == "records.get: guid: is missing"


def test_a_query_for_another_database_is_ignored(
    system: TestSystem,
) -> None:
    uid, socket = deploy(system), str(system.client.socket)

    async def ask(database: int) -> Any:
        async with Requester(Address(path=socket, database=database)) as requester:
            return await requester.call(make_call(uid, "records.list"), 1.0)

    assert asyncio.run(ask(0))["output"]["items"] == []
    with pytest.raises(NoAnswer):
        asyncio.run(ask(1))


def test_a_query_without_a_database_is_answered(system: TestSystem) -> None:
    uid = deploy(system)
    reply = f"reply:{{{uid}}}:somebody"
    with system.client.redis.pubsub() as hearing:
        hearing.subscribe(reply)
        hearing.get_message(timeout=PATIENCE_S)

        system.client.redis.publish(
            f"pipeline:{{{uid}}}:ask",
            json.dumps({"op": "records.list", "reply": reply, "input": {}}),
        )

        assert (
            json.loads(hearing.get_message(timeout=PATIENCE_S)["data"])["answer"]["output"]["total"]
            == 0
        )


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"x",
        b"[]",
        b'{"op": "records.list"}',
        b'{"op": 1, "reply": "reply:{x", "input": {}}',
        b'{"op": "records.list", "reply": "swarm:{x}:chat", "input": {}}',
        b"[" * 100_000,
        b'{"mid":"1-0.0~00000000","op":"records.list"}',
        b"\xff" * 40,
    ],
)
def test_a_malformed_query_is_harmless(system: TestSystem, payload: bytes) -> None:
    uid = deploy(system)

    system.client.redis.publish(f"pipeline:{{{uid}}}:ask", payload)

    assert call(system, uid, "records.list")["total"] == 0


def test_a_broken_operation_fails_alone(system: TestSystem) -> None:
    uid = deploy(system)
    broken, whole = NewCall(uid, "trials.stumble", b"{}", False), make_call(uid, "records.list")

    answers = call_all(system, *[broken, whole] * 10)

    assert [answer.get("error", {}).get("code") for answer in answers] == ["broken", None] * 10
    assert "stumbled" in answers[0]["error"]["detail"]


def test_a_query_for_a_changing_operation_is_refused(system: TestSystem) -> None:
    uid = deploy(system)
    with ExitStack() as stack:
        listening = system.client.redis.pubsub()
        stack.callback(listening.close)
        listening.subscribe(f"reply:{{{uid}}}:me")
        assert listening.get_message(timeout=PATIENCE_S)["type"] == "subscribe"
        question = {
            "op": "records.create",
            "input": {"content": "tea"},
            "reply": f"reply:{{{uid}}}:me",
        }

        system.client.redis.publish(f"pipeline:{{{uid}}}:ask", json.dumps(question))

        answer = json.loads(
            wait_for(lambda: listening.get_message(timeout=1), "an answer")["data"]
        )["answer"]
    assert (
        answer["error"]["code"] == "refused"
        and "can be called on this channel" in answer["error"]["detail"]
    )
    assert not system.contents(uid)


def test_answers_go_only_to_channels_of_the_pipeline(system: TestSystem) -> None:
    uid, other, own = deploy(system), make_uid(), make_uid()
    question, entry = (
        {"op": "records.list", "input": {}},
        {"op": "records.create", "data": b'{"content":"tea"}'},
    )
    channels = [
        f"reply:{{{other}}}:me",
        f"swarm:{{{other}}}:chat",
        "reply:{",
        f"reply:{{{uid}}}:{own}",
    ]
    with ExitStack() as stack:
        listening = system.client.redis.pubsub()
        stack.callback(listening.close)
        listening.subscribe(*channels)
        for channel in channels:
            system.client.redis.publish(
                f"pipeline:{{{uid}}}:ask", json.dumps(question | {"reply": channel})
            )
            system.client.redis.xadd(input_of(uid), entry | {"reply": channel})
            system.client.redis.xadd(
                input_of(uid), {"swarm": "chat", "data": b"{", "reply": channel}
            )

        wait_for(lambda: len(system.contents(uid)) == len(channels), "all of them are done")
        heard = [
            wait_for(
                lambda: listening.get_message(ignore_subscribe_messages=True, timeout=1),
                "the worker logs it",
            )
            for _ in range(3)
        ]

        assert {one["channel"].decode() for one in heard} == {channels[-1]}
        assert listening.get_message(ignore_subscribe_messages=True, timeout=0.3) is None


def test_queries_beyond_the_limit_are_refused_at_once() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid)])
        system.client.await_served(uid)
        calls = [make_call(uid, "records.list")] * 1500

        answers = asyncio.run(ask_a_lot(system, calls))

        assert {BusBusy, dict} == set(map(type, answers)) or {dict} == set(map(type, answers))
        assert sum(isinstance(answer, dict) for answer in answers) >= 1000
        assert worker.stop() == 0


async def ask_a_lot(system: TestSystem, calls: list[object]) -> list[object]:
    async with Requester(Address(path=str(system.client.socket))) as requester:
        return await asyncio.gather(
            *[requester.call(call, 20) for call in calls], return_exceptions=True
        )


def test_an_ended_owner_is_absent_at_once() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid)])
        system.client.await_served(uid)
        assert call(system, uid, "records.list")["total"] == 0

        worker.kill()
        began = time.monotonic()
        wait_for(lambda: is_absent(system, uid), "the server knows that the worker is gone")
        assert time.monotonic() - began < 5 + LATE_S

        system.start_worker()
        assert call(system, uid, "records.list")["total"] == 0


def is_absent(system: TestSystem, uid: str) -> bool:
    try:
        call(system, uid, "records.list")
    except NoOwner:
        return True
    return False


def test_queries_are_answered_under_a_stream_of_messages(system: TestSystem) -> None:
    uid = deploy(system)
    system.client.enter_together(uid, [f"/write {number}" for number in range(3000)])

    totals = [call(system, uid, "records.list", {"limit": 1})["total"] for _ in range(5)]
    system.client.await_quiet(uid, 30)

    assert totals == sorted(totals)
    assert call(system, uid, "records.list", {"limit": 1})["total"] == 3000


def test_a_search_uses_the_language_of_the_store(system: TestSystem) -> None:
    uid, plain = make_uid(), deploy(system)
    store = f"instances/{uid}/memories"
    system.deploy(make_bundle(uid, stores=[{"memory_id": store, "language": "german"}]))
    for one in (uid, plain):
        call(system, one, "records.create", {"content": "Die Häuser sind schön"})
    asked = {"query": "Haus", "mode": "hybrid", "explain": True}

    told = [call(system, one, "records.search", asked) for one in (uid, plain)]

    assert [
        (answer["explanation"]["query"]["language"], len(answer["items"])) for answer in told
    ] == [("german", 1), ("english", 0)]
    assert call(system, uid, "records.search", asked | {"language": "english"})["items"] == []
