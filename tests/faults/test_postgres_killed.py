"""Row 28: PostgreSQL, which holds the control plane, is killed or frozen under load."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.conftest import Tell
from tests.support.bundles import make_bundle, make_uid
from tests.support.host import Host
from tests.support.http_load import HttpLoad
from tests.support.postgres import Postgres
from tests.support.replicated_bus import single_bus
from tests.support.waiting import wait_for

TIMES = [2, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]


def kill(server: Postgres) -> None:
    server.kill()
    time.sleep(0.5)
    server.start()


def freeze(server: Postgres) -> None:
    for pid in server.processes:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(3)
    for pid in server.processes:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("fault", [kill, freeze])
@pytest.mark.parametrize("times", TIMES)
def test_messages_survive_the_loss_of_postgresql(
    fault: Callable[[Postgres], None], times: int, tmp_path: Path, tell: Tell
) -> None:
    moments, uid = random.Random(28), make_uid()
    with (
        Postgres() as server,
        single_bus(tmp_path / "bus") as url,
        Host(tmp_path / "host", BUS__URL=url, STORAGE__URL=server.create_database()) as host,
    ):
        host.start_worker()
        host.start_web()
        host.deploy(make_bundle(uid))
        with HttpLoad(host, uid=uid) as load:
            for _ in range(times):
                time.sleep(moments.uniform(0.3, 1.0))
                fault(server)
                load.await_accepted(50)

        wait_for(lambda: set(load.accepted) <= set(host.contents(uid)), "all writes have effects")
        kept = Counter(host.contents(uid))
        assert [text for text, number in kept.items() if number > 1] == []
        host.deploy(make_bundle(make_uid()))
        assert all(process.lives for process in host.processes)
        tell(
            28,
            f"PostgreSQL {fault.__name__}",
            times=times,
            messages=len(load.accepted),
            refused_at_most_s=load.longest_refusal_s,
        )
