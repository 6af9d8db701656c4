"""Database threads: one after another, in a thread of their own, whatever the work does."""

import asyncio
import gc
import threading
import weakref
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from memrelay.memory.stores import OpenStores
from memrelay.memory.threads import DatabaseThread
from tests.memory.builders import MEMORY_ID, contents, make_store, read_all, write_all


def refuse(stores: OpenStores) -> None:
    raise ValueError("told")


def test_work_runs_in_the_order_in_which_it_was_asked(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        thread, done = DatabaseThread("db", tmp_path, 2), []
        await asyncio.gather(
            *(thread.run(lambda stores, at=at: done.append(at)) for at in range(100))
        )
        await thread.close()
        return done

    assert asyncio.run(scenario()) == list(range(100))


def test_all_work_runs_in_one_thread_that_is_not_the_loops(tmp_path: Path) -> None:
    async def scenario() -> set[int]:
        thread = DatabaseThread("db", tmp_path, 2)
        idents = {await thread.run(lambda stores: threading.get_ident()) for _ in range(5)}
        await thread.close()
        return idents

    idents = asyncio.run(scenario())

    assert len(idents) == 1
    assert threading.get_ident() not in idents


def test_a_failure_is_told_to_who_asked_and_the_thread_goes_on(tmp_path: Path) -> None:
    async def scenario() -> int:
        thread = DatabaseThread("db", tmp_path, 2)
        with pytest.raises(ValueError, match="told"):
            await thread.run(refuse)
        with pytest.raises(SystemExit):
            await thread.run(lambda stores: exit(1))
        answer = await thread.run(lambda stores: 7)
        await thread.close()
        return answer

    assert asyncio.run(scenario()) == 7


def test_neither_what_failed_nor_what_came_of_work_is_kept(tmp_path: Path) -> None:
    class Batch:
        pass

    seen: list[weakref.ref[Batch]] = []

    def work(stores: OpenStores, fails: bool) -> Batch:
        seen.append(weakref.ref(batch := Batch()))
        if fails:
            raise ValueError("told")
        return batch

    async def scenario() -> list[bool]:
        thread = DatabaseThread("db", tmp_path, 2)
        for fails in (True, False):
            with suppress(ValueError):
                await thread.run(partial(work, fails=fails))
        await asyncio.sleep(0.01)  # for the thread is still leaving the last one
        kept = [ref() is not None for ref in seen]
        await thread.close()
        return kept

    gc.disable()  # which would find in the end what keeps itself
    try:
        assert asyncio.run(scenario()) == [False, False]
    finally:
        gc.enable()


def test_work_that_nobody_awaits_any_more_is_left_out(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        thread, done, go_on = DatabaseThread("db", tmp_path, 2), list[str](), threading.Event()
        first = asyncio.create_task(thread.run(lambda stores: go_on.wait(60)))
        second = asyncio.create_task(thread.run(lambda stores: done.append("second")))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        go_on.set()
        await first
        await thread.close()
        return done

    assert asyncio.run(scenario()) == []


def test_work_that_has_begun_is_finished_though_nobody_awaits_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        thread, begun, go_on = DatabaseThread("db", tmp_path, 2), asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def work(stores: OpenStores) -> None:
            loop.call_soon_threadsafe(begun.set)
            go_on.wait(60)
            write_all(stores.get(MEMORY_ID), "tea")

        asking = asyncio.create_task(thread.run(work))
        await begun.wait()
        asking.cancel()
        go_on.set()
        await thread.close()
        assert asking.cancelled()

    asyncio.run(scenario())

    assert contents(read_all(make_store(tmp_path))) == ["tea"]


def test_closing_finishes_what_was_asked_and_closes_the_stores(tmp_path: Path) -> None:
    async def scenario() -> None:
        thread = DatabaseThread("db", tmp_path, 2)
        asked = [
            asyncio.create_task(thread.run(lambda stores: write_all(stores.get(MEMORY_ID), "tea")))
            for _ in range(20)
        ]
        await asyncio.sleep(0)
        await thread.close()
        assert all(task.done() for task in asked)

    asyncio.run(scenario())

    store = make_store(tmp_path)
    assert len(read_all(store)) == 20
    assert not any(thread.name == "db" for thread in threading.enumerate())
