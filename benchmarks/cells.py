"""usage: .venv/bin/python benchmarks/cells.py [--messages N] [--pipelines N] [--rounds N]
[--cells N]

Compares a cluster of three primaries, with pipelines in 16 cells, with one server, in turn. Prints
messages per second, and the processor time of the worker and of the servers per message. Then it
prints the processor time of an idle worker with one cell and with all.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.plan import cpu_s
from memrelay.bus import keys
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import parse
from tests.support.bundles import make_bundle
from tests.support.client import make_envelope
from tests.support.host import Host
from tests.support.replicated_bus import ClusterBus, single_bus

TOGETHER, IDLE_S = 500, 20
FIELDS = ("swarm", "chat", "data", make_envelope("/write The meeting is at 3pm"))
# Messages in the log for each write: itself, the relay's output and the result.
LOGGED = 3


@contextmanager
def open_bus(folder: Path, *, is_cluster: bool) -> Iterator[str]:
    if not is_cluster:
        with single_bus(folder) as url:
            yield url
        return
    with ClusterBus(folder, with_replicas=False) as bus:
        yield bus.url


def server_pids() -> list[int]:
    return [
        int(file.parent.name)
        for file in Path("/proc").glob("[0-9]*/cmdline")
        if b"valkey-server" in file.read_bytes()
    ]


async def count_logged(client: ReconnectingConnection, uids: list[str]) -> int:
    words = [("XINFO", "STREAM", keys.swarm_key(uid, "chat")) for uid in uids]
    replies = await client.call_all(words, keep_refusals=True)
    found = [
        dict(zip(one[::2], one[1::2], strict=True)) for one in replies if isinstance(one, list)
    ]
    return sum(one[b"entries-added"] for one in found)


async def send(url: str, uids: list[str], count: int) -> float:
    """Send writes to the pipelines in turn, and return the seconds until all are processed."""
    async with ReconnectingConnection(parse(url)) as client:
        before = await count_logged(client, uids)
        began = time.perf_counter()
        for first in range(0, count, TOGETHER):
            inputs = [keys.input_key(uids[at % len(uids)]) for at in range(first, first + TOGETHER)]
            await client.call_all([("XADD", key, "*", *FIELDS) for key in inputs])
        while await count_logged(client, uids) - before < LOGGED * count:
            await asyncio.sleep(0.02)
        return time.perf_counter() - began


def measure(folder: Path, count: int, pipelines: int, cells: int) -> tuple[float, ...]:
    """Return messages per second, and us of the worker and of the servers per message.

    Without cells, the bus is one server.
    """
    keys.use_cells(cells)
    uids = [f"p{number}" for number in range(pipelines)]
    with (
        open_bus(folder / "bus", is_cluster=bool(cells)) as url,
        Host(folder / "host", BUS__URL=url, BUS__CELLS=str(cells or 1)) as host,
    ):
        worker = host.start_worker()
        host.start_web()
        for uid in uids:
            host.deploy(make_bundle(uid))
        asyncio.run(send(url, uids, TOGETHER))
        servers = server_pids()
        before = cpu_s([worker.pid]), cpu_s(servers)
        took_s = asyncio.run(send(url, uids, count))
        after = cpu_s([worker.pid]), cpu_s(servers)
    used = [(one - other) / count * 1e6 for one, other in zip(after, before, strict=True)]
    return count / took_s, *used


def measure_idle(folder: Path, cells: int) -> float:
    """Return the part of a core that a worker without pipelines uses."""
    with (
        ClusterBus(folder / "bus", with_replicas=False) as bus,
        Host(folder / "host", BUS__URL=bus.url, BUS__CELLS=str(cells)) as host,
    ):
        worker = host.start_worker()
        time.sleep(5)
        before = cpu_s([worker.pid])
        time.sleep(IDLE_S)
        return (cpu_s([worker.pid]) - before) / IDLE_S


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--pipelines", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cells", type=int, default=16)
    given = parser.parse_args()
    rounds: dict[int, list[tuple[float, ...]]] = {0: [], given.cells: []}
    for _ in range(given.rounds):
        for cells, found in rounds.items():
            with tempfile.TemporaryDirectory() as folder:
                found.append(measure(Path(folder), given.messages, given.pipelines, cells))
    for cells, found in rounds.items():
        rate, worker, servers = (statistics.median(column) for column in zip(*found, strict=True))
        name = f"cluster, {cells} cells" if cells else "one server"
        used = f"worker {worker:.0f} us, servers {servers:.0f} us"
        print(f"{name:>18}: {rate:,.0f} messages/s, {used}")
    for cells in (1, given.cells):
        with tempfile.TemporaryDirectory() as folder:
            print(f"idle worker, {cells} cells: {measure_idle(Path(folder), cells):.1%} of a core")


if __name__ == "__main__":
    main()
