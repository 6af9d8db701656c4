"""The cost of open pages: one read of the bus per second in total, and nothing once closed."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiohttp import ClientSession

from memrelay.bus.client.url import Address
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.web.app import WebServer
from memrelay.web.server.options import WebOptions
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


def test_many_open_pages_read_the_bus_once_a_second(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    before = count_reads(web_system)

    with ThreadPoolExecutor(20) as pool:
        answers = list(
            pool.map(lambda _: web_system.get(f"/pipelines/{uid}/stats").status, range(100))
        )

    assert set(answers) == {200}
    assert (
        1 <= count_reads(web_system) - before <= 10
    )  # at most one read per second, even on a busy machine


def count_reads(web_system: WebSystem) -> int:
    """Return how often the list of workers was read. Each status read does so once."""
    return int(
        web_system.system.client.redis.info("commandstats").get(
            "cmdstat_zrangebyscore", {"calls": 0}
        )["calls"]
    )


def test_a_pipeline_is_shown_as_soon_as_it_is_deployed(web_system: WebSystem) -> None:
    for _ in range(5):
        uid = web_system.deploy()

        assert web_system.get(f"/pipelines/{uid}").status == 200


def test_a_slow_read_is_shared_and_a_failed_one_is_retried(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    web_system.system.client.redis.execute_command("CLIENT", "PAUSE", 1500, "ALL")
    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(lambda _: web_system.get(f"/pipelines/{uid}").status, range(10))) == {
            200
        }

    web_system.system.server.stop(grace_s=5)
    wait_for(
        lambda: web_system.get(f"/pipelines/{uid}").status == 503, "the page reports the lost bus"
    )
    web_system.system.server.start()

    wait_for(lambda: web_system.get(f"/pipelines/{uid}").status == 200, "the page recovers")


def test_a_closed_page_leaves_no_task_behind(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    paths = [
        "/",
        "/fragments/overview",
        *[f"/pipelines/{uid}{part}" for part in ("", "/stats", "/log?swarm=chat")],
    ]

    before, after = asyncio.run(count_tasks(web_system, paths))

    assert after <= before


async def count_tasks(web_system: WebSystem, paths: list[str]) -> tuple[int, int]:
    """Return the number of tasks of a new web server after one round of requests and after many."""
    server = WebServer(
        Address(path=str(web_system.system.client.socket)),
        web_system.system.root,
        WebOptions(port=0),
        SecretResolver(web_system.system.root, {}),
    )
    running = asyncio.create_task(server.run())
    await server.ready.wait()
    await request_pages(server.url, paths, 1)
    before = await settled_tasks()
    await request_pages(server.url, paths, 100)
    after = await settled_tasks()
    server.stop()
    await running
    return before, after


async def request_pages(url: str, paths: list[str], times: int) -> None:
    async with ClientSession(url) as session:
        for _ in range(times):
            for answer in await asyncio.gather(*map(session.get, paths)):
                assert answer.status == 200
                await answer.read()


async def settled_tasks() -> int:
    """Return the number of tasks once closed connections are gone."""
    await asyncio.sleep(0.3)
    return len(asyncio.all_tasks())
