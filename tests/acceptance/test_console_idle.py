"""Statement 11 of the console: 100 open pages cost one read of the bus per second together, and
the web process does not grow. A page that is polled 200 times keeps its memory.
"""

import asyncio
import os
import time
from collections.abc import Iterator

import pytest
from aiohttp import ClientSession
from playwright.sync_api import Page

from tests.support.browser import chromium
from tests.support.console import open_page, save_screenshot
from tests.support.console_content import Content, fill_console
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

PAGES = 100
# Ten minutes with IDLE_SECONDS=600.
SECONDS = int(os.environ.get("IDLE_SECONDS", "20"))
# Chromium keeps what it learns about scripts until each has run some hundred times.
WARM_POLLS, POLLS = 400, 200
# Reads of the states of the watched pipelines, each with one HGETALL per pipeline.
STATES, STATUS = "cmdstat_hgetall", "cmdstat_zrangebyscore"
MAX_GROWTH_BYTES = 10_000_000


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as found:
        yield found


def test_100_idle_pages_share_one_read_per_second(web_system: WebSystem) -> None:
    content = fill_console(web_system)
    asyncio.run(poll(web_system.url, content, 3))
    start, rss = count_calls(web_system), read_rss(web_system.web.pid)
    time.sleep(SECONDS)
    idle = count_calls(web_system)

    statuses = asyncio.run(poll(web_system.url, content, SECONDS))

    open_pages = count_calls(web_system)
    assert statuses[304] > 0.9 * sum(statuses.values()) > PAGES * SECONDS / 4
    for name in (STATES, STATUS):
        by_the_worker = idle[name] - start[name]
        assert open_pages[name] - idle[name] - by_the_worker <= SECONDS + 3, name
    assert read_rss(web_system.web.pid) - rss <= MAX_GROWTH_BYTES


async def poll(url: str, content: Content, seconds: int) -> dict[int, int]:
    """Refresh PAGES pages once a second as their script does. Return how often each status came."""
    counts: dict[int, int] = {}
    until = time.monotonic() + seconds
    base = f"/pipelines/{content.uid}"

    async def refresh(session: ClientSession, path: str) -> None:
        tag = ""
        while time.monotonic() < until:
            began = time.monotonic()
            headers = {"If-None-Match": tag} if tag else {}
            async with session.get(path, headers=headers) as answer:
                counts[answer.status] = counts.get(answer.status, 0) + 1
                tag = answer.headers["ETag"]
                await answer.read()
            await asyncio.sleep(max(0.0, 1 - (time.monotonic() - began)))

    async with ClientSession(url) as session:
        paths = [f"{base}/memory/rows", f"{base}/log?swarm=chat", f"{base}/notices"]
        await asyncio.gather(
            *(refresh(session, paths[number % len(paths)]) for number in range(PAGES))
        )
    return counts


def count_calls(web_system: WebSystem) -> dict[str, int]:
    """Return how often the bus has executed the commands of the shared reads."""
    stats = web_system.system.client.redis.info("commandstats")
    return {name: int(stats.get(name, {"calls": 0})["calls"]) for name in (STATES, STATUS)}


def read_rss(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.parametrize("title", ["Memory", "Overview"])
def test_the_heap_of_a_page_stays_flat_over_200_polls(web_system: WebSystem, title: str) -> None:
    content = fill_console(web_system)
    with chromium() as browser, open_page(browser, web_system, content.addresses[title]) as page:
        page.clock.install()
        wait_for_polls(page, WARM_POLLS)
        before = measure_heap(page)

        wait_for_polls(page, POLLS)

        after = measure_heap(page)
        if title == "Overview":
            save_screenshot(page, "overview")
    print(f"heap of {title}: {before:,} bytes, after {POLLS} polls {after:,} bytes")
    assert 0.95 * before <= after <= 1.05 * before


def wait_for_polls(page: Page, count: int) -> None:
    """Advance the clock of the page until it has refreshed itself this many times."""
    for _ in range(count):
        with page.expect_response("**"):
            page.clock.run_for(1000)
        page.wait_for_load_state("networkidle")


def measure_heap(page: Page) -> int:
    """Return the bytes that the scripts of the page use after a garbage collection."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used = int(session.send("Runtime.getHeapUsage")["usedSize"])
    session.detach()
    return used
