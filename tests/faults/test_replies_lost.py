"""Row 4: a reply of the server is lost with its connection, or everything is held back for a
while.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.faults.conftest import Tell
from tests.faults.feeder import Feeder
from tests.faults.promises import assert_promises, assert_same, await_nothing_left
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import make_envelope
from tests.support.house import House
from tests.support.proxy import Proxy
from tests.support.served import Served
from tests.support.tiers import first_always
from tests.support.waiting import wait_for

TIMES, WRITES = 5, 2_000
OFTEN = [
    "XREADGROUP",
    "MULTI",
    "queued XADD",
    "queued XDEL",
    "EXEC",
]  # each batch contains some of them


@contextmanager
def proxied(house: House) -> Iterator[Proxy]:
    """Start a proxy in front of the server."""
    with Proxy(house.client.socket, house.folder / "proxy.sock") as proxy:
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
    way: str, times: int, tell: Tell
) -> None:
    uid = make_uid()
    with House() as house, proxied(house) as proxy:
        worker = house.start_worker(bundles=[make_bundle(uid)], bus=proxy.socket)
        with Feeder(house, uid, times * WRITES, pause_s=0.1) as feeder:
            for command in OFTEN * times:
                lose(proxy, command, way)

        took_s = assert_promises(house, uid, feeder.texts)
        tell(
            4,
            f"a {way} lost: {', '.join(OFTEN)}",
            times=len(proxy.dropped),
            messages=len(feeder.texts),
            effects=len(feeder.texts),
            done_within_s=took_s,
        )
        assert worker.stop() == 0


@pytest.mark.parametrize("command", ["XINFO", "XRANGE", "XGROUP"])
def test_a_reply_lost_during_recovery_is_requested_again(command: str) -> None:
    uid = make_uid()
    with House() as house, proxied(house) as proxy:
        house.start_stepping_worker(die_on="committed", bundles=[make_bundle(uid)], ready=False)
        texts = [str(number) for number in range(500)]
        house.client.enter_together(uid, [f"/write {text}" for text in texts])
        house.workers[-1].await_end()

        proxy.drop_reply(command)
        worker = house.start_worker(bus=proxy.socket)

        wait_for(lambda: proxy.dropped == [command], "the reply is dropped")
        assert_promises(house, uid, texts)
        assert worker.stop() == 0


def test_a_published_message_with_a_lost_append_reply_is_stored_once() -> None:
    uid = make_uid()
    with House() as house, proxied(house) as proxy:
        worker = house.start_worker(bundles=[make_bundle(uid)], bus=proxy.socket)
        house.client.await_served(uid)
        proxy.drop_reply("XADD")
        house.client.publish(uid, make_envelope("/write tea"))

        wait_for(lambda: house.contents(uid), "it is kept")
        assert_promises(house, uid, ["tea"])
        assert worker.stop() == 0


def test_a_post_with_a_lost_append_reply_has_one_effect(
    tell: Tell,
) -> None:
    with Served() as served, proxied(served.house) as proxy:
        uid = served.deploy()
        served.start_web(BUS__URL=f"unix://{proxy.socket}")
        for number in range(TIMES):
            proxy.drop_reply("XADD")
            first = served.webhook(uid, "memory_write_", str(number), webhook_id=f"n{number}")
            second = served.webhook(uid, "memory_write_", str(number), webhook_id=f"n{number}")
            assert (first.problem[0], first.headers["retry-after"], second.status) == (
                503,
                "1",
                202,
            )

        assert_promises(served.house, uid, map(str, range(TIMES)), url=served.url)
        tell(
            4,
            "the reply to a webhook's XADD lost",
            times=TIMES,
            answered="503, then 202",
            effects=TIMES,
        )


def test_a_partition_is_noticed_and_ends(tell: Tell) -> None:
    with Served() as served, proxied(served.house) as proxy:
        house, uid = served.house, make_uid()
        house.workers[-1].stop()
        worker = house.start_worker(bundles=[make_bundle(uid)], bus=proxy.socket)
        served.start_web(BUS__URL=f"unix://{proxy.socket}")
        with Feeder(house, uid, WRITES, pause_s=0.01) as feeder:
            wait_for(lambda: house.contents(uid), "it works")
            proxy.hold()
            began = time.monotonic()
            answer = served.webhook(uid, "memory_write_", "meanwhile", webhook_id="meanwhile")
            told_s = time.monotonic() - began
            ready = served.get("/ready").status
            wait_for(lambda: "bus_lost" in worker.said, "the worker has noticed")
            proxy.let_go()

        assert (answer.problem[0], ready) == (503, 503)
        assert (
            served.webhook(uid, "memory_write_", "meanwhile", webhook_id="meanwhile").status == 202
        )
        await_nothing_left(house, uid)
        assert_same(house.contents(uid), [*feeder.texts, "meanwhile"])
        assert_promises(house, uid, house.contents(uid), url=served.url)
        tell(4, "a partition", told_within_s=told_s, messages=WRITES, effects=WRITES)
        assert worker.stop() == 0
