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


class Fixture:
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


def run_with_fixture(tmp_path: Path, check: Callable[[Fixture], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with Catalog(tmp_path) as catalog:
            await check(Fixture(catalog))

    asyncio.run(whole())


OLD, NEW = (
    make_bundle("a", make_agent("old", "add_1")),
    make_bundle("a", make_agent("new", "add_1")),
)


def test_a_pipeline_is_found_with_its_agents_and_swarms(tmp_path: Path) -> None:
    async def check(fixture: Fixture) -> None:
        await fixture.deploy(
            make_bundle("a", *make_commands(), make_agent("plus", "add_1", on="b", to="c"))
        )
        served = await fixture.directory.find("a")
        assert served.swarms == ("chat", "b", "c")
        assert served.get_agent("plus_").block.name == "add_1"
        with pytest.raises(NotFound, match="has no agent 'plus'; it has dispatch_write_, "):
            served.get_agent("plus")

    run_with_fixture(tmp_path, check)


def test_a_deployed_bundle_is_not_checked_again(tmp_path: Path) -> None:
    bundle = check(OLD).accepted()

    async def run(fixture: Fixture) -> None:
        await fixture.deploy(OLD)
        fixture.directory.remember(bundle)

        assert (await fixture.directory.find("a")).bundle is bundle

    run_with_fixture(tmp_path, run)


def test_a_known_pipeline_is_cached_for_a_second(tmp_path: Path) -> None:
    async def check(fixture: Fixture) -> None:
        await fixture.deploy(OLD)
        assert await fixture.aliases("a") == ["old_"]
        await fixture.deploy(NEW)
        fixture.clock.now_s += FRESH_S * 0.9
        assert await fixture.aliases("a") == ["old_"]
        fixture.clock.now_s += FRESH_S * 0.2
        assert await fixture.aliases("a") == ["new_"]

    run_with_fixture(tmp_path, check)


def test_an_unknown_pipeline_is_looked_up_at_once(tmp_path: Path) -> None:
    async def check(fixture: Fixture) -> None:
        with pytest.raises(NotFound, match="no active pipeline has the uid 'a'"):
            await fixture.directory.find("a")
        await fixture.deploy(OLD)
        assert await fixture.aliases("a") == ["old_"]

    run_with_fixture(tmp_path, check)


def test_invalidation_shows_a_change_at_once(tmp_path: Path) -> None:
    async def check(fixture: Fixture) -> None:
        await fixture.deploy(OLD)
        await fixture.directory.find("a")
        await fixture.catalog.remove("a")
        fixture.clock.now_s += 0.001
        fixture.directory.invalidate()
        fixture.clock.now_s += 0.001
        with pytest.raises(NotFound):
            await fixture.directory.find("a")
        assert await fixture.directory.list_pipelines() == []

    run_with_fixture(tmp_path, check)


def test_a_change_during_a_read_is_not_missed(tmp_path: Path) -> None:
    async def check(fixture: Fixture) -> None:
        await fixture.deploy(OLD)
        reading = asyncio.ensure_future(fixture.directory.find("a"))
        await asyncio.sleep(0)
        fixture.clock.now_s += 0.001
        await fixture.deploy(NEW)
        fixture.directory.invalidate()
        fixture.clock.now_s += 0.001
        assert await fixture.aliases("a") == ["new_"]
        await reading
        assert await fixture.aliases("a") == ["new_"]

    run_with_fixture(tmp_path, check)


def test_a_refreshed_list_is_current(tmp_path: Path) -> None:
    async def check(fixture: Fixture) -> None:
        assert await fixture.directory.list_pipelines() == []
        await fixture.deploy(OLD)
        assert await fixture.directory.list_pipelines() == []
        fixture.clock.now_s += 0.001
        assert [
            served.deployed.uid for served in await fixture.directory.list_pipelines(refresh=True)
        ] == ["a"]

    run_with_fixture(tmp_path, check)


def test_concurrent_callers_share_one_read(tmp_path: Path) -> None:
    async def check(fixture: Fixture) -> None:
        await fixture.deploy(OLD)
        await asyncio.gather(*[fixture.directory.find("a") for _ in range(100)])
        fixture.clock.now_s += 2 * FRESH_S
        await asyncio.gather(*[fixture.directory.find("a") for _ in range(100)])
        (first, *others) = await asyncio.gather(*[fixture.directory.find("a") for _ in range(100)])
        assert all(other is first for other in others)

    run_with_fixture(tmp_path, check)


def test_a_cancelled_caller_does_not_cancel_the_shared_read(tmp_path: Path) -> None:
    async def check(fixture: Fixture) -> None:
        await fixture.deploy(OLD)
        impatient, patient = [asyncio.ensure_future(fixture.directory.find("a")) for _ in range(2)]
        await asyncio.sleep(0)
        impatient.cancel()
        assert list((await patient).agents) == ["old_"]

    run_with_fixture(tmp_path, check)
