"""A restart: idle pipelines leave their stores closed, and others recover in turns."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from memrelay.worker.run.recovery import TOGETHER, RecoveryTurns
from tests.support.bundles import make_bundle, make_uid
from tests.support.system import TestSystem
from tests.support.waiting import wait_for


def leave(file: Path) -> None:
    """Leave the store as it is."""


def restore(file: Path) -> None:
    """Replace the store by a copy, as a restored backup does."""
    copy = file.with_suffix(".copy")
    shutil.copyfile(file, copy)
    copy.replace(file)


@pytest.mark.slow
@pytest.mark.parametrize(("change", "recovers"), [(leave, False), (restore, True)])
def test_a_store_at_rest_is_opened_only_if_its_file_changed(
    change: Callable[[Path], None], recovers: bool
) -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_stepping_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write before")
        wait_for(lambda: "at rest" in system.steps, "the idle pipeline rests")
        worker.kill()
        change(system.store_file(uid))
        recovered = system.steps.count("taken over")
        ident = system.client.enter(uid, "/write waiting")

        system.start_stepping_worker()
        system.client.await_done(uid, ident)
        system.client.answer(uid, "/write after")

        assert (system.steps.count("taken over") > recovered) == recovers
        assert system.contents(uid) == ["before", "waiting", "after"]


def test_turns_are_taken_in_order_and_a_stuck_one_ends() -> None:
    began: list[int] = []

    async def recover(turns: RecoveryTurns, number: int, stuck: asyncio.Event) -> None:
        async with turns.take():
            began.append(number)
            await stuck.wait()

    async def run() -> None:
        turns, stuck = RecoveryTurns(), asyncio.Event()
        tasks = [asyncio.create_task(recover(turns, one, stuck)) for one in range(3 * TOGETHER)]
        await asyncio.sleep(0)
        assert began == list(range(TOGETHER))
        while len(began) < len(tasks):
            await asyncio.sleep(0.01)
        stuck.set()
        await asyncio.gather(*tasks)
        assert not turns.unfinished

    asyncio.run(run())
    assert began == list(range(3 * TOGETHER))
