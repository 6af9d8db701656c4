"""Schedules (`wf_cron`) call an agent's block once per slot, across workers and kill -9."""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from memrelay.bus.keys import input_key, timers_key
from tests.support.bundles import Json, make_agent, make_bundle, make_uid
from tests.support.child import ChildProcess
from tests.support.client import Client, make_envelope
from tests.support.run_timers import FileClock
from tests.support.server import running_server
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

MINUTE_MS = 60_000
SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "daily_digest.json"


def make_scheduled(cron: str, **keys: object) -> Json:
    """Return an agent with a schedule, which answers ERR to an empty text."""
    return make_agent("clock", "add_1", senders="nobody") | {"wf_cron": cron} | keys


class TestHour:
    """Timers of several processes on one server, and a clock that only the test moves."""

    __test__ = False

    def __init__(self, folder: Path, stack: ExitStack, cron: str, **keys: object) -> None:
        server = stack.enter_context(running_server(folder / "bus"))
        self.redis = stack.enter_context(Client(server.socket_path)).redis
        self.uid = make_uid()
        (folder / "clock").write_bytes(bytes(8))
        self._clock = FileClock(folder / "clock")
        bundle = orjson.dumps(make_bundle(self.uid, make_scheduled(cron, **keys))).decode()
        self._arguments = [str(server.socket_path), bundle, str(folder / "clock")]
        self._folder, self._count, self._stack = folder, 0, stack

    def set_clock(self, now: datetime) -> None:
        self._clock.set_ms(int(now.timestamp()) * 1000)

    def start(self) -> ChildProcess:
        """Start the timers of another worker."""
        self._count += 1
        log = self._folder / f"timers{self._count}.log"
        worker = ChildProcess("tests.support.run_timers", self._arguments, log)
        self._stack.callback(lambda: worker.lives and worker.kill())
        worker.await_ready()
        return worker

    def await_call(self) -> int:
        """Wait for calls and process them. Return how many there were."""
        wait_for(lambda: self.redis.xlen(input_key(self.uid)), "a call")
        return self.take()

    def take(self) -> int:
        return int(self.redis.xtrim(input_key(self.uid), maxlen=0))

    @property
    def last_slot(self) -> datetime:
        """Return the last slot that the server has recorded."""
        _, ms, _ = self.redis.hget(timers_key(self.uid), "clock_").split()
        return datetime.fromtimestamp(int(ms) / 1000, UTC)


@contextmanager
def running_hour(folder: Path, cron: str, **keys: object) -> Iterator[TestHour]:
    with ExitStack() as stack:
        yield TestHour(folder, stack, cron, **keys)


@pytest.mark.parametrize("minutes", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_a_worker_killed_in_each_minute_runs_each_slot_once(tmp_path: Path, minutes: int) -> None:
    began, chance = datetime(2026, 3, 29, 1, 30, tzinfo=UTC), random.Random(47)
    with running_hour(tmp_path, "* * * * *", wf_timezone="Europe/Berlin") as hour:
        hour.set_clock(began)
        worker, calls = hour.start(), []
        for minute in range(1, minutes + 1):
            successor = hour.start()
            hour.set_clock(began + timedelta(minutes=minute))
            time.sleep(chance.random() * 0.01)
            worker.kill()
            calls.append((hour.await_call(), hour.last_slot))
            worker = successor

        time.sleep(0.05)
        assert calls == [(1, began + timedelta(minutes=number + 1)) for number in range(minutes)]
        assert hour.take() == 0


def test_a_slot_is_late_only_within_its_minute_and_then_is_missed(tmp_path: Path) -> None:
    nine = datetime(2026, 6, 1, 7, tzinfo=UTC)
    with running_hour(tmp_path, "0 9 * * *", wf_timezone="Europe/Berlin") as hour:
        hour.set_clock(nine - timedelta(seconds=1))
        hour.start().kill()
        hour.set_clock(nine + timedelta(seconds=59))
        hour.start().kill()
        assert hour.await_call() == 1

        hour.set_clock(nine + timedelta(days=1, seconds=60))
        worker = hour.start()
        time.sleep(0.05)
        assert hour.take() == 0

        hour.set_clock(nine + timedelta(days=2))
        assert hour.await_call() == 1 and hour.last_slot == nine + timedelta(days=2)
        worker.kill()


def test_the_last_missed_slot_is_caught_up_once(tmp_path: Path) -> None:
    nine = datetime(2026, 6, 1, 9, tzinfo=UTC)
    with running_hour(tmp_path, "0 9 * * *", wf_catch_up=True) as hour:
        hour.set_clock(nine - timedelta(hours=1))
        hour.start().kill()
        assert hour.take() == 0

        hour.set_clock(nine + timedelta(days=30, hours=5))
        workers = [hour.start(), hour.start()]

        assert hour.await_call() == 1 and hour.last_slot == nine + timedelta(days=30)
        workers.append(hour.start())
        time.sleep(0.05)
        assert hour.take() == 0


def test_a_worker_catches_up_with_a_slot_that_no_worker_served() -> None:
    uid, now_ms = make_uid(), time.time_ns() // 1_000_000
    never_ms = 400 * 24 * 60 * MINUTE_MS
    with TestSystem() as system:
        known = f"0_0_1_1_*@UTC {now_ms - never_ms} 0-0"
        system.client.redis.hset(timers_key(uid), "clock_", known)
        scheduled = make_scheduled("0 0 1 1 *", wf_catch_up=True)
        system.start_worker(bundles=[make_bundle(uid, scheduled)])

        wait_for(lambda: system.client.log(uid), "the missed slot")

        assert [(said.sender, said.text) for said in system.client.log(uid)] == [("clock", "ERR")]


def test_the_sample_digest_publishes_the_notes_of_yesterday() -> None:
    uid, now_ms, day_ms = make_uid(), time.time_ns() // 1_000_000, 24 * 60 * MINUTE_MS
    sample = orjson.loads(SAMPLE.read_bytes()) | {"pipeline_uid": uid}
    with TestSystem() as system:
        redis = system.client.redis
        for days, text in ((3, "old tea"), (1, "green tea")):
            data = make_envelope(text)
            entry = f"{now_ms - days * day_ms}-0"
            redis.xadd(input_key(uid), {"agent": "note", "data": data}, id=entry)
        worker = system.start_worker(bundles=[sample])
        system.client.await_quiet(uid)
        assert system.client.log(uid, "daily") == []  # a new schedule has missed nothing

        schedule, _, entry = redis.hget(timers_key(uid), "morning").split()
        missed = b"%s %d %s" % (schedule, now_ms - 2 * day_ms, entry)
        redis.hset(timers_key(uid), "morning", missed)
        worker.kill()
        system.start_worker()
        wait_for(lambda: system.client.log(uid, "daily"), "the digest")

        assert [said.text for said in system.client.log(uid, "daily")] == ["- green tea\n"]


@pytest.mark.slow
def test_a_second_worker_takes_over_the_slots_of_a_killed_one() -> None:
    uid = make_uid()
    with TestSystem() as system:
        first = system.start_worker(bundles=[make_bundle(uid, make_scheduled("* * * * *"))])
        system.start_worker()
        left_s = 60 - time.time() % 60
        time.sleep(left_s - 1 if left_s > 1 else left_s + 59)
        first.kill()

        wait_for(lambda: system.client.log(uid), "the slot")
        slots = [int(said.input.partition("-")[0]) // MINUTE_MS for said in system.client.log(uid)]
        assert len(slots) == len(set(slots))
