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
from tests.support.served import Served
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served() as found:
        yield found


def test_many_open_pages_read_the_bus_once_a_second(served: Served) -> None:
    uid = served.deploy()
    before = count_reads(served)

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: served.get(f"/pipelines/{uid}/stats").status, range(100)))

    assert set(answers) == {200}
    assert (
        1 <= count_reads(served) - before <= 10
    )  # at most one read per second, even on a busy machine


def count_reads(served: Served) -> int:
    """Return how often the list of workers was read. Each status read does so once."""
    return int(
        served.house.client.redis.info("commandstats").get("cmdstat_zrangebyscore", {"calls": 0})[
            "calls"
        ]
    )


def test_a_pipeline_is_shown_as_soon_as_it_is_deployed(served: Served) -> None:
    for _ in range(5):
        uid = served.deploy()

        assert served.get(f"/pipelines/{uid}").status == 200


def test_a_slow_read_is_shared_and_a_failed_one_is_retried(served: Served) -> None:
    uid = served.deploy()
    served.house.client.redis.execute_command("CLIENT", "PAUSE", 1500, "ALL")
    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(lambda _: served.get(f"/pipelines/{uid}").status, range(10))) == {200}

    served.house.server.stop(grace_s=5)
    wait_for(lambda: served.get(f"/pipelines/{uid}").status == 503, "the page reports the lost bus")
    served.house.server.start()

    wait_for(lambda: served.get(f"/pipelines/{uid}").status == 200, "the page recovers")


def test_a_closed_page_leaves_no_task_behind(served: Served) -> None:
    uid = served.deploy()
    paths = [
        "/",
        "/fragments/overview",
        *[f"/pipelines/{uid}{part}" for part in ("", "/stats", "/log?swarm=chat")],
    ]

    before, after = asyncio.run(count_tasks(served, paths))

    assert after <= before


async def count_tasks(served: Served, paths: list[str]) -> tuple[int, int]:
    """Return the number of tasks of a new web server after one round of requests and after many."""
    server = WebServer(
        Address(path=str(served.house.client.socket)),
        served.house.root,
        WebOptions(port=0),
        SecretResolver(served.house.root, {}),
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
