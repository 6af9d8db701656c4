"""The conformance suite of LangGraph's checkpoint savers, embedded and over HTTP."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate

from memrelay import connect, connect_sync, open_store
from memrelay.integrations.langgraph import MemrelaySaver
from tests.support.web_system import WebSystem

CAPABILITIES, CASES = 8, 81


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as web_system:
        web_system.deploy()
        yield web_system


def count_passed(name: str, make: Any) -> tuple[int, int, list[str]]:
    """Run the suite. `make` is an async generator of a saver. Return (capabilities, passed cases,
    failures).
    """
    report = asyncio.run(validate(checkpointer_test(name=name)(make)))
    results = report.results.values()
    return (
        sum(bool(one.passed) for one in results),
        sum(one.tests_passed for one in results),
        [failure for one in results for failure in one.failures],
    )


def test_a_saver_in_an_embedded_store_passes_all_cases(tmp_path: Path) -> None:
    async def fresh() -> AsyncGenerator[MemrelaySaver]:
        with open_store(tmp_path / "a.db") as store:
            yield MemrelaySaver(store, "embedded")

    assert count_passed("embedded", fresh) == (CAPABILITIES, CASES, [])


def test_a_saver_of_the_async_client_passes_all_cases(web_system: WebSystem) -> None:
    async def fresh() -> AsyncGenerator[MemrelaySaver]:
        async with connect(web_system.url) as client:
            yield MemrelaySaver(client, "http")

    assert count_passed("http", fresh) == (CAPABILITIES, CASES, [])


@pytest.mark.slow
def test_a_saver_of_the_blocking_client_passes_all_cases(web_system: WebSystem) -> None:
    async def fresh() -> AsyncGenerator[MemrelaySaver]:
        with connect_sync(web_system.url) as client:
            yield MemrelaySaver(client, "blocking")

    assert count_passed("blocking", fresh) == (CAPABILITIES, CASES, [])
