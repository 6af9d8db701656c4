"""Row 4: a reply of the server is lost with its connection, or everything is held back for a
while.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.faults.conftest import RecordFigures
from tests.faults.invariants import assert_invariants, assert_same, await_no_remaining_work
from tests.faults.write_load import WriteLoad
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import make_envelope
from tests.support.proxy import Proxy
from tests.support.system import TestSystem
from tests.support.tiers import first_always
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

TIMES, WRITES = 5, 2_000
OFTEN = [
    "XREADGROUP",
    "MULTI",
    "queued XADD",
    "queued XDEL",
    "EXEC",
]  # each batch contains some of them


@contextmanager
def proxied(system: TestSystem) -> Iterator[Proxy]:
    """Start a proxy in front of the server."""
    with Proxy(system.client.socket, system.folder / "proxy.sock") as proxy:
        yield proxy


def lose(proxy: Proxy, command: str, way: str) -> None:
    """Lose a command or its reply, and wait until it is lost."""
    count = len(proxy.dropped)
    getattr(proxy, f"drop_{way}")(command)
    wait_for(lambda: len(proxy.dropped) > count, f"a {way} is dropped: {command}")


@pytest.mark.parametrize(
    "times", [1, pytest.param(5, marks=[pytest.mark.slow, pytest.mark.timeout(180)])]
)
@pytest.mark.parametrize("way", first_always("reply", "command"))
def test_a_lost_command_or_reply_loses_and_duplicates_nothing(
    way: str, times: int, record_figures: RecordFigures
) -> None:
    uid = make_uid()
    with TestSystem() as system, proxied(system) as proxy:
        worker = system.start_worker(bundles=[make_bundle(uid)], bus=proxy.socket)
        with WriteLoad(system, uid, times * WRITES, pause_s=0.1) as load:
            for command in OFTEN * times:
                lose(proxy, command, way)

        took_s = assert_invariants(system, uid, load.texts)
        record_figures(
            4,
            f"a {way} lost: {', '.join(OFTEN)}",
            times=len(proxy.dropped),
            messages=len(load.texts),
            effects=len(load.texts),
            done_within_s=took_s,
        )
        assert worker.stop() == 0


@pytest.mark.parametrize("command", ["XINFO", "XRANGE", "XGROUP"])
def test_a_reply_lost_during_recovery_is_requested_again(command: str) -> None:
    uid = make_uid()
    with TestSystem() as system, proxied(system) as proxy:
        system.start_stepping_worker(die_on="committed", bundles=[make_bundle(uid)], ready=False)
        texts = [str(number) for number in range(500)]
        system.client.enter_together(uid, [f"/write {text}" for text in texts])
        system.workers[-1].await_end()

        proxy.drop_reply(command)
        worker = system.start_worker(bus=proxy.socket)

        wait_for(lambda: proxy.dropped == [command], "the reply is dropped")
        assert_invariants(system, uid, texts)
        assert worker.stop() == 0


def test_a_published_message_with_a_lost_append_reply_is_stored_once() -> None:
    uid = make_uid()
    with TestSystem() as system, proxied(system) as proxy:
        worker = system.start_worker(bundles=[make_bundle(uid)], bus=proxy.socket)
        system.client.await_served(uid)
        proxy.drop_reply("XADD")
        system.client.publish(uid, make_envelope("/write tea"))

        wait_for(lambda: system.contents(uid), "it is kept")
        assert_invariants(system, uid, ["tea"])
        assert worker.stop() == 0


def test_a_post_with_a_lost_append_reply_has_one_effect(
    record_figures: RecordFigures,
) -> None:
    with WebSystem() as web_system, proxied(web_system.system) as proxy:
        uid = web_system.deploy()
        web_system.start_web(BUS__URL=f"unix://{proxy.socket}")
        for number in range(TIMES):
            proxy.drop_reply("XADD")
            first = web_system.webhook(uid, "memory_write_", str(number), webhook_id=f"n{number}")
            second = web_system.webhook(uid, "memory_write_", str(number), webhook_id=f"n{number}")
            assert (first.problem[0], first.headers["retry-after"], second.status) == (
                503,
                "1",
                202,
            )

        assert_invariants(web_system.system, uid, map(str, range(TIMES)), url=web_system.url)
        record_figures(
            4,
            "the reply to a webhook's XADD lost",
            times=TIMES,
            answered="503, then 202",
            effects=TIMES,
        )


def test_a_partition_is_noticed_and_ends(record_figures: RecordFigures) -> None:
    with WebSystem() as web_system, proxied(web_system.system) as proxy:
        system, uid = web_system.system, make_uid()
        system.workers[-1].stop()
        worker = system.start_worker(bundles=[make_bundle(uid)], bus=proxy.socket)
        web_system.start_web(BUS__URL=f"unix://{proxy.socket}")
        with WriteLoad(system, uid, WRITES, pause_s=0.01) as load:
            wait_for(lambda: system.contents(uid), "it works")
            proxy.hold()
            began = time.monotonic()
            answer = web_system.webhook(uid, "memory_write_", "meanwhile", webhook_id="meanwhile")
            told_s = time.monotonic() - began
            ready = web_system.get("/ready").status
            wait_for(lambda: "bus_lost" in worker.output, "the worker has noticed")
            proxy.let_go()

        assert (answer.problem[0], ready) == (503, 503)
        assert (
            web_system.webhook(uid, "memory_write_", "meanwhile", webhook_id="meanwhile").status
            == 202
        )
        await_no_remaining_work(system, uid)
        assert_same(system.contents(uid), [*load.texts, "meanwhile"])
        assert_invariants(system, uid, system.contents(uid), url=web_system.url)
        record_figures(4, "a partition", told_within_s=told_s, messages=WRITES, effects=WRITES)
        assert worker.stop() == 0
