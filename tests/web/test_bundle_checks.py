"""Checks of bundles run in turn, and one caller leaves room for others."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from memrelay.web.api.deployments import MAX_CALLER_CHECKS, MAX_CHECKS, BundleChecks
from memrelay.web.server.errors import Unavailable


def test_checks_run_in_turn_and_a_caller_has_a_share() -> None:
    async def run() -> None:
        checks, running, done = BundleChecks(), [], asyncio.Event()

        async def wait_in(caller: str) -> None:
            async with checks.turn(caller):
                running.append(caller)
                await done.wait()

        callers = [f"caller {index // MAX_CALLER_CHECKS}" for index in range(MAX_CHECKS)]
        tasks = [asyncio.create_task(wait_in(one)) for one in callers[:MAX_CALLER_CHECKS]]
        await asyncio.sleep(0)
        for is_full in (False, True):
            async with AsyncExitStack() as stack:
                with pytest.raises(Unavailable, match="too many bundles"):
                    await stack.enter_async_context(
                        checks.turn("another" if is_full else "caller 0")
                    )
            if not is_full:
                tasks += [asyncio.create_task(wait_in(one)) for one in callers[len(tasks) :]]
                await asyncio.sleep(0)
        assert running == ["caller 0"]

        done.set()
        await asyncio.gather(*tasks)
        assert running == callers
        async with checks.turn("caller 0"):
            pass

    asyncio.run(run())
