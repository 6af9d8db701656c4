"""Row 27: the primary of the bus is killed under load, and Sentinel promotes its replica."""

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.conftest import RecordFigures
from tests.support.bundles import make_bundle, make_uid
from tests.support.host import Host
from tests.support.http_load import HttpLoad
from tests.support.replicated_bus import SentinelBus
from tests.support.waiting import LATE_S, wait_for

KILLS = [1, pytest.param(10, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]


@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.parametrize("min_replicas", [0, 1])
def test_a_killed_primary_is_replaced_and_nothing_applies_twice(
    kills: int, min_replicas: int, tmp_path: Path, record_figures: RecordFigures
) -> None:
    moments, uid = random.Random(27), make_uid()
    settings = {"BUS__MIN_REPLICAS": str(min_replicas), "WORKER__LEASE_S": "5"}
    with (
        SentinelBus(tmp_path / "bus") as bus,
        Host(tmp_path / "host", BUS__URL=bus.url, **settings) as host,
    ):
        host.start_worker()
        host.start_web()
        host.deploy(make_bundle(uid))
        with HttpLoad(host, uid=uid) as load:
            for _ in range(kills):
                time.sleep(moments.uniform(1.0, 2.0))
                killed = bus.kill_primary()
                load.await_accepted(50)
                bus.restore(killed)

        def settled() -> bool:
            (one,) = host.ask("GET", "/status").json["pipelines"]
            return one["lag"] == one["waiting"] == 0

        wait_for(settled, "nothing waits")
        kept = Counter(host.contents(uid))
        lost = set(load.accepted) - set(kept)

        assert [text for text, number in kept.items() if number > 1] == []
        assert kept.keys() <= set(load.accepted)
        assert not (lost and min_replicas)
        assert load.longest_refusal_s < 5 + LATE_S
        assert all(process.lives for process in host.processes)
        record_figures(
            27,
            f"Sentinel failover, bus.min_replicas {min_replicas}",
            kills=kills,
            messages=len(load.accepted),
            lost=len(lost),
            refused_at_most_s=load.longest_refusal_s,
        )
