"""The directory of active pipelines: cached for a second, except for unknown uids."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.control.catalog import Catalog
from memrelay.pipelines.check import check
from memrelay.web.api.directory import FRESH_S, Directory
from memrelay.web.server.errors import NotFound
from tests.support.bundles import make_agent, make_bundle, make_commands

Json = dict[str, Any]


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Desk:
    """A catalog and a directory of it."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog, self.clock = catalog, Clock()
        self.directory = Directory(catalog, self.clock)

    async def deploy(self, *bundles: Json) -> None:
        """Deploy as another process does, without invalidating the directory."""
        for raw in bundles:
            bundle = check(raw).accepted()
            await self.catalog.deploy(bundle.uid, bundle.name, bundle.hash, bundle.source, 1)

    async def aliases(self, uid: str) -> list[str]:
        return list((await self.directory.find(uid)).agents)


def at_a_desk(tmp_path: Path, about: Callable[[Desk], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with Catalog(tmp_path) as catalog:
            await about(Desk(catalog))

    asyncio.run(whole())


OLD, NEW = (
    make_bundle("a", make_agent("old", "add_1")),
    make_bundle("a", make_agent("new", "add_1")),
)


def test_a_pipeline_is_found_with_its_agents_and_swarms(tmp_path: Path) -> None:
    async def about(desk: Desk) -> None:
        await desk.deploy(
            make_bundle("a", *make_commands(), make_agent("plus", "add_1", on="b", to="c"))
        )
        served = await desk.directory.find("a")
        assert served.swarms == ("chat", "b", "c")
        assert served.agent("plus_").block.name == "add_1"
        with pytest.raises(NotFound, match="has no agent 'plus'; it has dispatch_write_, "):
            served.agent("plus")

    at_a_desk(tmp_path, about)


def test_a_known_pipeline_is_cached_for_a_second(tmp_path: Path) -> None:
    async def about(desk: Desk) -> None:
        await desk.deploy(OLD)
        assert await desk.aliases("a") == ["old_"]
        await desk.deploy(NEW)
        desk.clock.now_s += FRESH_S * 0.9
        assert await desk.aliases("a") == ["old_"]
        desk.clock.now_s += FRESH_S * 0.2
        assert await desk.aliases("a") == ["new_"]

    at_a_desk(tmp_path, about)


def test_an_unknown_pipeline_is_looked_up_at_once(tmp_path: Path) -> None:
    async def about(desk: Desk) -> None:
        with pytest.raises(NotFound, match="no active pipeline has the uid 'a'"):
            await desk.directory.find("a")
        await desk.deploy(OLD)
        assert await desk.aliases("a") == ["old_"]

    at_a_desk(tmp_path, about)


def test_invalidation_shows_a_change_at_once(tmp_path: Path) -> None:
    async def about(desk: Desk) -> None:
        await desk.deploy(OLD)
        await desk.directory.find("a")
        await desk.catalog.remove("a")
        desk.clock.now_s += 0.001
        desk.directory.forget()
        desk.clock.now_s += 0.001
        with pytest.raises(NotFound):
            await desk.directory.find("a")
        assert await desk.directory.all() == []

    at_a_desk(tmp_path, about)


def test_a_change_during_a_read_is_not_missed(tmp_path: Path) -> None:
    async def about(desk: Desk) -> None:
        await desk.deploy(OLD)
        reading = asyncio.ensure_future(desk.directory.find("a"))
        await asyncio.sleep(0)
        desk.clock.now_s += 0.001
        await desk.deploy(NEW)
        desk.directory.forget()
        desk.clock.now_s += 0.001
        assert await desk.aliases("a") == ["new_"]
        await reading
        assert await desk.aliases("a") == ["new_"]

    at_a_desk(tmp_path, about)


def test_a_refreshed_list_is_current(tmp_path: Path) -> None:
    async def about(desk: Desk) -> None:
        assert await desk.directory.all() == []
        await desk.deploy(OLD)
        assert await desk.directory.all() == []
        desk.clock.now_s += 0.001
        assert [served.deployed.uid for served in await desk.directory.all(anew=True)] == ["a"]

    at_a_desk(tmp_path, about)


def test_concurrent_callers_share_one_read(tmp_path: Path) -> None:
    async def about(desk: Desk) -> None:
        await desk.deploy(OLD)
        await asyncio.gather(*[desk.directory.find("a") for _ in range(100)])
        desk.clock.now_s += 2 * FRESH_S
        await asyncio.gather(*[desk.directory.find("a") for _ in range(100)])
        (first, *others) = await asyncio.gather(*[desk.directory.find("a") for _ in range(100)])
        assert all(other is first for other in others)

    at_a_desk(tmp_path, about)


def test_a_cancelled_caller_does_not_cancel_the_shared_read(tmp_path: Path) -> None:
    async def about(desk: Desk) -> None:
        await desk.deploy(OLD)
        impatient, patient = [asyncio.ensure_future(desk.directory.find("a")) for _ in range(2)]
        await asyncio.sleep(0)
        impatient.cancel()
        assert list((await patient).agents) == ["old_"]

    at_a_desk(tmp_path, about)
