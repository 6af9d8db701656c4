"""A worker that counts what its batches cost: `tests/guard/start.py` runs this module."""

import asyncio
import gc
import json
import os
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memrelay.bus.client.url import Address
from memrelay.memory.control.catalog import Catalog
from memrelay.pipelines.check import check
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.service import Worker, WorkerOptions
from tests.guard.planted import register_planted_block
from tests.guard.probes import EPOCH_NS, GuardLoop, Probes
from tests.guard.relay import Relay
from tests.support.bundles import make_bundle, make_commands
from tests.support.client import Client, input_of, make_envelope

UID = "guard"
# One batch of each kind before the first that counts.
WARM_UP = 16
TEXTS = {"write": "note {size:03}x{number:03} about a garden", "search": "{size:03}x{number:03}"}
# The lease must not end while the clock stands still.
LEASE_S = 3600
Cost = dict[str, int]


def main(probes: Probes, arguments: dict[str, Any]) -> None:
    """Print the costs of all batches as JSON, and end the process.

    `arguments`: the server's `socket`, an empty `folder`, the `sizes` of the batches, and the
    block to call as `write`.
    """
    folder = Path(arguments["folder"])
    threading.excepthook = _fail
    register_planted_block()
    loop = GuardLoop()
    asyncio.set_event_loop(loop)
    options = WorkerOptions(
        Address(path=str(folder / "relay")),
        folder / "memory",
        limits=WorkerLimits(lease_s=LEASE_S),
    )
    loop.run_until_complete(_deploy(options.memory_root, arguments["block"]))
    worker = Worker(options)
    relay = Relay(folder / "relay", Path(arguments["socket"]), loop, probes)
    driver = Driver(Path(arguments["socket"]), relay, probes, loop)
    threading.Thread(target=driver.run, args=(worker, arguments["sizes"]), daemon=True).start()
    loop.run_until_complete(worker.run())


def _fail(error: threading.ExceptHookArgs) -> None:
    """End the process when one of its threads fails."""
    threading.__excepthook__(error)
    os._exit(1)


async def _deploy(root: Path, block: str) -> None:
    agents = make_commands()
    for agent in agents:
        if agent["wf_diagram_webhook"] == "memory_write":
            agent["wf_diagram_webhook"] = block
    bundle = check(make_bundle(UID, *agents)).accepted()
    async with Catalog(root) as catalog:
        now_ms = time.time_ns() // 1_000_000
        await catalog.deploy(bundle.uid, bundle.name, bundle.hash, bundle.source, now_ms)


class Driver:
    """Gives the worker one batch after the other, in a separate thread."""

    def __init__(self, socket: Path, relay: Relay, probes: Probes, loop: GuardLoop) -> None:
        self._client, self._relay, self._probes = Client(socket), relay, probes
        self._loop, self._sent = loop, 0

    def run(self, worker: Worker, sizes: Sequence[int]) -> None:
        """Measure all batches, print the costs and end the process, which has no other work."""
        self._probes.exempt_thread()
        print(json.dumps(self._measure(worker, sizes)), flush=True)
        os._exit(0)

    def _measure(self, worker: Worker, sizes: Sequence[int]) -> dict[str, Cost]:
        self._relay.pass_freely(until=worker.ready.is_set)
        self._loop.is_frozen = True
        self._probes.freeze()
        gc.disable()
        self._relay.pass_in_turns()
        costs: dict[str, Cost] = {}
        for kind in TEXTS:
            self._run_batch(kind, WARM_UP)
            costs |= {f"{kind} {size}": self._run_batch(kind, size) for size in sizes}
        return costs

    def _run_batch(self, kind: str, size: int) -> Cost:
        """Run one batch of messages. Return its cost by the name of the count."""
        gc.collect()
        self._probes.advance(1)
        self._relay.start()
        before = self._probes.read()
        self._probes.start_blocks()
        self._send(kind, size)
        self._relay.pass_in_turns()
        self._check(kind, size)
        blocks, counted = self._probes.blocks, self._probes.read().since(before)
        return {
            **_named("calls", _by_package(counted.calls)),
            "blocks": blocks,
            **_named("sql", counted.statements),
            "syncs": counted.syncs,
            **_named("redis", self._relay.commands),
            "redis bytes": self._relay.bytes,
        }

    def _send(self, kind: str, size: int) -> None:
        """Append the messages in one MULTI, so that one read returns them all."""
        self._sent += 1
        with self._client.redis.pipeline(transaction=True) as pipe:
            for number in range(size):
                text = f"/{kind} {TEXTS[kind].format(number=number, size=size)}"
                fields: Any = {"swarm": "chat", "data": make_envelope(text)}
                ident = f"{EPOCH_NS // 10**6 + self._sent}-{number}"
                pipe.xadd(input_of(UID), fields, id=ident)
            pipe.execute()

    def _check(self, kind: str, size: int) -> None:
        """Raise AssertionError unless all messages ran in one batch and were answered."""
        assert self._relay.reads == [size], f"read {self._relay.reads} instead of {size}"
        assert not self._client.redis.xlen(input_of(UID)), "some messages are not acknowledged"
        said = self._client.log(UID)[-3 * size :]
        senders = Counter(one.sender for one in said)
        assert senders[f"memory_{kind}"] == size, senders
        assert not [one.text for one in said if "error" in one.text]


def _by_package(calls: Mapping[str, int]) -> Cost:
    """Return the calls by package: `memrelay.worker`, `structlog`, or `stdlib`."""
    packages: Cost = defaultdict(int)
    for module, count in calls.items():
        packages[_package_of(module)] += count
    return packages


def _package_of(module: str) -> str:
    top, *inner = module.split(".")
    if top == "memrelay":
        return ".".join([top, *inner[:1]])
    # The functions of a named tuple have the module `namedtuple_NAME`.
    return "stdlib" if top in sys.stdlib_module_names or top.startswith("namedtuple_") else top


def _named(prefix: str, counts: Mapping[str, int]) -> Cost:
    return {f"{prefix} {name}": count for name, count in counts.items()}
