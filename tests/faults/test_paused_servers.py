"""Rows 34 and 35: servers of the bus are paused and continue, under messages without ids."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.conftest import RecordFigures
from tests.faults.effects import check_effects
from tests.support.bundles import make_bundle, make_uid
from tests.support.host import Host
from tests.support.plain_load import PlainLoad
from tests.support.replicated_bus import PASSWORD, BusServer, ClusterBus, single_server

# Connections of workers last for 5 to 7.5 s of silence, those of web servers for 7.5 s.
PAUSES_S = [6.8, 10.0]


def pause(server: BusServer, pause_s: float) -> None:
    server.send_signal(signal.SIGSTOP)
    try:
        time.sleep(pause_s)
    finally:
        server.send_signal(signal.SIGCONT)


def count_lost(host: Host, cause: Callable[[float], None]) -> dict[str, int]:
    """Cause each pause, check the effects, and return the figures."""
    writes, appends = make_uid(), make_uid()
    host.start_worker()
    host.start_web()
    for uid in (writes, appends):
        host.deploy(make_bundle(uid))
    with (
        PlainLoad(host, writes, "write") as writing,
        PlainLoad(host, appends, "append") as appending,
    ):
        for pause_s in PAUSES_S:
            appending.await_accepted(20)
            cause(pause_s)
        appending.await_accepted(20)
    lost = check_effects(host, (writes, writing), (appends, appending))
    messages = len(writing.accepted) + len(appending.accepted)
    return {"pauses": len(PAUSES_S), "messages": messages, "lost": len(lost)}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("min_replicas", [0, 1])
def test_a_paused_primary_of_a_cluster_applies_nothing_twice(
    min_replicas: int, tmp_path: Path, record_figures: RecordFigures
) -> None:
    settings = {"BUS__MIN_REPLICAS": str(min_replicas), "WORKER__LEASE_S": "5"}
    with (
        ClusterBus(tmp_path / "bus") as bus,
        Host(tmp_path / "host", BUS__URL=bus.url, **settings) as host,
    ):
        figures = count_lost(host, bus.pause_owner)

    assert not (figures["lost"] and min_replicas)
    record_figures(34, f"Cluster, primary paused, bus.min_replicas {min_replicas}", **figures)


@pytest.mark.timeout(600)
def test_a_pause_of_the_only_server_loses_nothing_and_applies_nothing_twice(
    tmp_path: Path, record_figures: RecordFigures
) -> None:
    """As when its virtual machine is paused."""
    with single_server(tmp_path / "bus") as bus:
        url = f"redis://:{PASSWORD}@127.0.0.1:{bus.port}"
        with Host(tmp_path / "host", BUS__URL=url, WORKER__LEASE_S="5") as host:
            figures = count_lost(host, lambda pause_s: pause(bus, pause_s))

    assert figures["lost"] == 0
    record_figures(35, "the only server paused", **figures)
