"""Tasks that run in the background of another task."""

import asyncio

import pytest

from memrelay.worker.waiting import beside


async def falls_over() -> None:
    raise UnicodeError("a text that is none")


def test_work_beside_that_fails_does_not_end_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> str:
        async with beside(falls_over()):
            await asyncio.sleep(0.01)
        return "done"

    assert asyncio.run(main()) == "done"

    (record,) = caplog.records
    assert (record.msg, str(record.exc_info and record.exc_info[1])) == (
        "work_beside_failed",
        "a text that is none",
    )


def test_work_beside_that_is_ended_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with beside(asyncio.sleep(60)):
            await asyncio.sleep(0.01)

    asyncio.run(main())

    assert caplog.records == []
