"""Background work that fails or is cancelled."""

import asyncio

import pytest

from memrelay.worker.waiting import in_background


async def falls_over() -> None:
    raise UnicodeError("a text that is none")


def test_failed_background_work_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> str:
        async with in_background(falls_over()):
            await asyncio.sleep(0.01)
        return "done"

    assert asyncio.run(main()) == "done"

    (record,) = caplog.records
    assert (record.msg, str(record.exc_info and record.exc_info[1])) == (
        "background_work_failed",
        "a text that is none",
    )


def test_cancelled_background_work_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with in_background(asyncio.sleep(60)):
            await asyncio.sleep(0.01)

    asyncio.run(main())

    assert caplog.records == []
