"""Row 33: planned failovers, and primaries that return after one, under messages without ids."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis

from tests.faults.conftest import RecordFigures
from tests.faults.effects import Fault, check_effects
from tests.support.bundles import make_bundle, make_uid
from tests.support.child import ChildProcess
from tests.support.host import Host
from tests.support.plain_load import PlainLoad
from tests.support.replicated_bus import PASSWORD, SERVICE, BusServer, SentinelBus
from tests.support.waiting import wait_for

# The worker leaves a silent server after 5 to 7.5 s, and open connections of the web server stay.
PAUSED_S = 6.8
# The clients of the bus; servers and Sentinels are the default user.
USER = "app"


def plan_failover(bus: SentinelBus, web: ChildProcess) -> Fault:
    with replacing(web) as fault:
        wait_for(lambda: starts_failover(bus), "a failover begins")
    return fault[0]


def starts_failover(bus: SentinelBus) -> bool:
    """Try to start a failover. Sentinel refuses while another one runs."""
    with bus.sentinels[0].client(password=None) as sentinel, suppress(redis.ResponseError):
        sentinel.execute_command("SENTINEL", "FAILOVER", SERVICE)
        return True
    return False


def plan_failover_and_wait(bus: SentinelBus, web: ChildProcess) -> Fault:
    fault = plan_failover(bus, web)
    time.sleep(18)
    return fault


def pause_primary(bus: SentinelBus, web: ChildProcess) -> Fault:
    paused = bus.primary
    paused.send_signal(signal.SIGSTOP)
    began_s = time.monotonic()
    try:
        with replacing(web) as fault:
            pass
        time.sleep(max(0, began_s + PAUSED_S - time.monotonic()))
    finally:
        paused.send_signal(signal.SIGCONT)
    return fault[0]


def cut_primary_off(bus: SentinelBus, web: ChildProcess) -> Fault:
    """Cut the primary off from its replicas and the Sentinels, but not from its clients."""
    primary = bus.primary
    with client_of(primary) as client:
        with replacing(web) as fault:
            client.execute_command("ACL", "SETUSER", "default", "off")
            client.execute_command("CLIENT", "KILL", "USER", "default")
        client.execute_command("ACL", "SETUSER", "default", "on")
    return fault[0]


def kill_sentinels(bus: SentinelBus, web: ChildProcess) -> Fault:
    for sentinel in bus.sentinels:
        sentinel.kill()
    time.sleep(3)
    for sentinel in bus.sentinels:
        sentinel.start()
    return plan_failover(bus, web)


@contextmanager
def replacing(web: ChildProcess) -> Iterator[list[Fault]]:
    """Wait until the web server uses another primary. The list gets the fault."""
    known = web.output.count("primary_replaced")
    began_s, faults = time.monotonic(), list[Fault]()
    yield faults
    wait_for(lambda: web.output.count("primary_replaced") > known, "the primary is replaced")
    faults.append(Fault(began_s, time.monotonic()))


def client_of(server: BusServer) -> redis.Redis:
    return redis.Redis(port=server.port, username=USER, password=PASSWORD, socket_timeout=5)


Cause = Callable[[SentinelBus, ChildProcess], Fault]
CAUSES = {
    "planned, 4 s apart": (plan_failover, 2),
    "planned, 18 s apart": (plan_failover_and_wait, 1),
    "primary paused": (pause_primary, 1),
    "primary cut off": (cut_primary_off, 1),
    "Sentinels killed": (kill_sentinels, 1),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("min_replicas", [0, 1, 2])
@pytest.mark.parametrize("name", CAUSES)
def test_a_failover_applies_nothing_twice_and_a_former_primary_accepts_nothing(
    name: str, min_replicas: int, tmp_path: Path, record_figures: RecordFigures
) -> None:
    (cause, times), writes, appends = CAUSES[name], make_uid(), make_uid()
    settings = {"BUS__MIN_REPLICAS": str(min_replicas), "WORKER__LEASE_S": "5"}
    with SentinelBus(tmp_path / "bus") as bus:
        for server in bus.servers:
            allow_clients(server)
        url = bus.url.replace("sentinel://", f"sentinel://{USER}")
        with Host(tmp_path / "host", BUS__URL=url, **settings) as host:
            host.start_worker()
            web = host.start_web()
            for uid in (writes, appends):
                host.deploy(make_bundle(uid))
            with (
                PlainLoad(host, writes, "write") as writing,
                PlainLoad(host, appends, "append") as appending,
            ):
                faults = [cause_fault(lambda: cause(bus, web), appending) for _ in range(times)]
                appending.await_accepted(20)

            lost = check_effects(host, (writes, writing), (appends, appending))
            unexplained = [
                span for span in lost.values() if not any(fault.explains(span) for fault in faults)
            ]
            assert unexplained == []
            assert not (lost and min_replicas == len(bus.servers) - 1)
            record_figures(
                33,
                f"Sentinel failover, {name}, bus.min_replicas {min_replicas}",
                failovers=times,
                messages=len(writing.accepted) + len(appending.accepted),
                lost=len(lost),
            )


def allow_clients(server: BusServer) -> None:
    rights = "on", f">{PASSWORD}", "~*", "&*", "+@all"
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", USER, *rights)


def cause_fault(cause: Callable[[], Fault], load: PlainLoad) -> Fault:
    load.await_accepted(20)
    fault = cause()
    time.sleep(4)
    return fault
