"""The deferred calls of one conversation wait for each other."""

import asyncio

import orjson

from memrelay.bus.client.url import Address
from memrelay.memory.engine.inbox import Pending
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.worker.deferred_calls.open_deferred_calls import OpenDeferredCall, OpenDeferredCalls
from memrelay.worker.deferred_calls.runner import DeferredCallRunner
from memrelay.worker.limits import WorkerLimits
from tests.support.bundles import STORE, make_agent, make_bundle

KEEPER = make_agent("keeper", "memory_write", {"memory_id": STORE}, senders="User")
PLAN = Plan(check(make_bundle("p", KEEPER)).accepted())


def make_pending(number: int) -> Pending:
    root, request = f"{number}-0", orjson.dumps({"order": "", "request": {}})
    return Pending(
        f"p/{root}.1+0", "p", "hash", "keeper_", "chat", 0, b"{}", root, "", 0, request=request
    )


def test_a_deferred_call_waits_for_all_continuations_of_its_conversation() -> None:
    async def run() -> list[int]:
        runner = DeferredCallRunner(8, 60.0, Address())
        deferred_calls = OpenDeferredCalls(runner, asyncio.Event(), WorkerLimits())
        for number in (1, 2):
            deferred_calls.hold(make_pending(number), PLAN)
        deferred_calls.add(OpenDeferredCall(make_pending(3), "store", PLAN))
        begun = [len(deferred_calls._begun)]
        for number in (2, 1):
            deferred_calls.finish(make_pending(number).id)
            begun.append(len(deferred_calls._begun))
        deferred_calls.finish(make_pending(3).id)
        runner.close()
        return begun

    assert asyncio.run(run()) == [0, 0, 1]


def test_two_continuations_of_a_conversation_end_in_any_order() -> None:
    async def run() -> None:
        deferred_calls = OpenDeferredCalls(
            DeferredCallRunner(8, 60.0, Address()), asyncio.Event(), WorkerLimits()
        )
        for number in (1, 2):
            deferred_calls.hold(make_pending(number), PLAN)
        for number in (2, 1):
            deferred_calls.finish(make_pending(number).id)
        assert not deferred_calls.has_agent("p", "keeper_")

    asyncio.run(run())
