"""Database threads run submitted work one by one, and survive its failures and cancellation."""

import asyncio
import gc
import sys
import threading
import weakref
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.engine.threads import DatabaseThread
from tests.memory.builders import MEMORY_ID, contents, make_store, read_all, write_all


def fail(stores: OpenStores) -> None:
    raise ValueError("refused")


def test_work_runs_in_the_order_of_submission(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        thread, done = DatabaseThread("db", tmp_path, 2), []
        await asyncio.gather(
            *(thread.run(lambda stores, at=at: done.append(at)) for at in range(100))
        )
        await thread.close()
        return done

    assert asyncio.run(scenario()) == list(range(100))


def test_all_work_runs_in_one_thread_outside_the_event_loop(tmp_path: Path) -> None:
    async def scenario() -> set[int]:
        thread = DatabaseThread("db", tmp_path, 2)
        idents = {await thread.run(lambda stores: threading.get_ident()) for _ in range(5)}
        await thread.close()
        return idents

    idents = asyncio.run(scenario())

    assert len(idents) == 1
    assert threading.get_ident() not in idents


def test_a_failure_reaches_its_caller_and_the_thread_continues(tmp_path: Path) -> None:
    async def scenario() -> int:
        thread = DatabaseThread("db", tmp_path, 2)
        with pytest.raises(ValueError, match="refused"):
            await thread.run(fail)
        with pytest.raises(SystemExit):
            await thread.run(lambda stores: sys.exit(1))
        answer = await thread.run(lambda stores: 7)
        await thread.close()
        return answer

    assert asyncio.run(scenario()) == 7


def test_the_thread_keeps_no_reference_to_results_or_failures(tmp_path: Path) -> None:
    class Batch:
        pass

    seen: list[weakref.ref[Batch]] = []

    def work(stores: OpenStores, fails: bool) -> Batch:
        seen.append(weakref.ref(batch := Batch()))
        if fails:
            raise ValueError("refused")
        return batch

    async def scenario() -> list[bool]:
        thread = DatabaseThread("db", tmp_path, 2)
        for fails in (True, False):
            with suppress(ValueError):
                await thread.run(partial(work, fails=fails))
        await asyncio.sleep(0.01)  # the thread still finishes the last call
        kept = [ref() is not None for ref in seen]
        await thread.close()
        return kept

    # the collector would free reference cycles
    gc.disable()
    try:
        assert asyncio.run(scenario()) == [False, False]
    finally:
        gc.enable()


def test_cancelled_work_that_has_not_started_is_skipped(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        thread, done, proceed = DatabaseThread("db", tmp_path, 2), list[str](), threading.Event()
        first = asyncio.create_task(thread.run(lambda stores: proceed.wait(60)))
        second = asyncio.create_task(thread.run(lambda stores: done.append("second")))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        proceed.set()
        await first
        await thread.close()
        return done

    assert asyncio.run(scenario()) == []


def test_started_work_finishes_after_cancellation(tmp_path: Path) -> None:
    async def scenario() -> None:
        thread, started, proceed = (
            DatabaseThread("db", tmp_path, 2),
            asyncio.Event(),
            threading.Event(),
        )
        loop = asyncio.get_running_loop()

        def work(stores: OpenStores) -> None:
            loop.call_soon_threadsafe(started.set)
            proceed.wait(60)
            write_all(stores.get(MEMORY_ID), "tea")

        waiting = asyncio.create_task(thread.run(work))
        await started.wait()
        waiting.cancel()
        proceed.set()
        await thread.close()
        assert waiting.cancelled()

    asyncio.run(scenario())

    assert contents(read_all(make_store(tmp_path))) == ["tea"]


def test_closing_finishes_submitted_work_and_closes_the_stores(tmp_path: Path) -> None:
    async def scenario() -> None:
        thread = DatabaseThread("db", tmp_path, 2)
        submitted = [
            asyncio.create_task(thread.run(lambda stores: write_all(stores.get(MEMORY_ID), "tea")))
            for _ in range(20)
        ]
        await asyncio.sleep(0)
        await thread.close()
        assert all(task.done() for task in submitted)

    asyncio.run(scenario())

    store = make_store(tmp_path)
    assert len(read_all(store)) == 20
    assert not any(thread.name == "db" for thread in threading.enumerate())
