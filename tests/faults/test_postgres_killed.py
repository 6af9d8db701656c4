"""Row 28: PostgreSQL, which holds the control plane and the journals, fails under load."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.conftest import RecordFigures
from tests.support.bundles import make_bundle, make_uid
from tests.support.host import Host
from tests.support.http_load import HttpLoad
from tests.support.postgres import Postgres
from tests.support.replicated_bus import single_bus
from tests.support.tcp_relay import TcpRelay
from tests.support.waiting import wait_for

TIMES = [2, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
Fault = Callable[[Postgres, TcpRelay, Host], None]


def kill(server: Postgres, relay: TcpRelay, host: Host) -> None:
    server.kill()
    time.sleep(0.5)
    server.start()


def freeze(server: Postgres, relay: TcpRelay, host: Host) -> None:
    for pid in server.processes:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(3)
    for pid in server.processes:
        os.kill(pid, signal.SIGCONT)


def cut(server: Postgres, relay: TcpRelay, host: Host) -> None:
    for _ in range(10):
        relay.cut()
        time.sleep(0.05)


def kill_worker(server: Postgres, relay: TcpRelay, host: Host) -> None:
    host.processes.pop(0).kill()
    host.processes.insert(0, host.start_worker())
    host.processes.pop()


@pytest.mark.parametrize(
    "fault", [kill, pytest.param(freeze, marks=pytest.mark.slow), cut, kill_worker]
)
@pytest.mark.parametrize("times", TIMES)
def test_messages_survive_the_loss_of_postgresql(
    fault: Fault, times: int, tmp_path: Path, record_figures: RecordFigures
) -> None:
    uid = make_uid()
    with ExitStack() as stack:
        server = stack.enter_context(Postgres())
        relay = stack.enter_context(TcpRelay(server.port))
        bus = stack.enter_context(single_bus(tmp_path / "bus"))
        storage = server.create_database().replace(str(server.port), str(relay.port))
        host = stack.enter_context(Host(tmp_path / "host", BUS__URL=bus, STORAGE__URL=storage))
        host.start_worker()
        host.start_web()
        host.deploy(make_bundle(uid))
        with HttpLoad(host, uid=uid) as load:
            repeat(times, load, lambda: fault(server, relay, host))

        host.await_contents(uid, load.accepted)
        assert set(Counter(host.contents(uid)).values()) == {1}
        wait_for(lambda: host.may_deploy(make_bundle(make_uid())), "bundles can be deployed")
        assert all(process.lives for process in host.processes)
        record_figures(
            28,
            f"PostgreSQL and journals: {fault.__name__}",
            times=times,
            messages=len(load.accepted),
            refused_at_most_s=load.longest_refusal_s,
        )


def repeat(times: int, load: HttpLoad, fault: Callable[[], None]) -> None:
    """Cause a fault at random moments. After each, writes must be accepted again."""
    moments = random.Random(28)
    for _ in range(times):
        time.sleep(moments.uniform(0.3, 1.0))
        fault()
        load.await_accepted(50)
