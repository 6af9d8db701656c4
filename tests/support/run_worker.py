"""usage: python -m tests.support.run_worker CONFIG. A worker process that can kill itself at a
step.

CONFIG is JSON with `socket` and `root`, and optionally `bundles` to deploy first, `limits`,
`embedding`, the `secrets` of blocks, the rules `outgoing`, and a file `steps` for the names of the
passed steps. The process sends itself SIGKILL, or `signal`, at step number `die_at` or at the first
step named `die_on`. If `armed` is false, it counts from a SIGUSR1 on and prints `armed` then.
"""

import asyncio
import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop

from memrelay.bus.client.url import Address
from memrelay.cli.imports import load_log_format
from memrelay.cli.logs import configure_logging
from memrelay.cli.process import make_stop_event
from memrelay.cli.tracing import start_tracing, stop_tracing
from memrelay.guarded_http.rules import OutgoingRules, PrivateHost, SecretBinding
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.pipelines.check import check
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.service import Worker, WorkerOptions
from tests.support.blocks import register_test_blocks
from tests.support.operations import register_test_operations

PR_SET_PDEATHSIG = 1


class Steps:
    """Counts the steps of the worker, records their names, and kills the process at one of them."""

    def __init__(self, config: dict[str, Any]) -> None:
        """Without `die_at` and `die_on`, nothing is killed."""
        self._path, self._lock, self._count = Path(config["steps"]), threading.Lock(), 0
        self._last, self._armed = (
            (config.get("die_at", 0), config.get("die_on", "")),
            config.get("armed", True),
        )
        self._signal = config.get("signal", signal.SIGKILL)

    def arm(self) -> None:
        """Start counting."""
        self._armed = True
        print("armed", flush=True)

    def __call__(self, step: str) -> None:
        """Record one step, in any thread."""
        with self._lock:
            self._count += self._armed
            with self._path.open("a") as file:
                print(step, file=file)
            if self._armed and (self._count == self._last[0] or step == self._last[1]):
                self._last = (0, "")
                os.kill(os.getpid(), self._signal)
                time.sleep(0.05)  # SIGSTOP reaches this thread a moment later


async def deploy(root: Path, *bundles: dict[str, Any]) -> None:
    """Deploy bundles. Raises BundleRefused."""
    async with Catalog(root) as catalog:
        for raw in bundles:
            bundle = check(raw).accepted()
            await catalog.deploy(
                bundle.uid, bundle.name, bundle.hash, bundle.source, time.time_ns() // 1_000_000
            )


async def serve(config: dict[str, Any]) -> None:
    """Serve until SIGTERM; print `ready` when serving."""
    register_test_blocks()
    register_test_operations()
    root = Path(config["root"])
    await deploy(root, *config.get("bundles", ()))
    outgoing = _outgoing(**config.get("outgoing", {}))
    options = WorkerOptions(
        Address(path=config["socket"]),
        root,
        limits=WorkerLimits(**config.get("limits", {})),
        embedding=_embedding(**config.get("embedding", {})),
        secrets=SecretResolver(
            root / "secrets",
            os.environ,
            for_blocks=config.get("secrets", ()),
            outgoing=outgoing,
        ),
        outgoing=outgoing,
        has_tracing=start_tracing(),
    )
    steps = Steps(config) if "steps" in config else None
    worker = Worker(options, steps) if steps else Worker(options)
    if steps:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, steps.arm)
    beside = [
        asyncio.create_task(_tell(worker.ready)),
        asyncio.create_task(_stop(worker, make_stop_event())),
    ]
    await worker.run()
    stop_tracing()
    for task in beside:
        task.cancel()


def _outgoing(
    private: Sequence[tuple[str, int, list[str]]] = (),
    secrets: Sequence[tuple[str, list[str]]] = (),
    open_for: Sequence[str] = (),
    max_hops: int = 32,
    web_port: int = 0,
) -> OutgoingRules:
    return OutgoingRules(
        private=tuple(PrivateHost(host, port, frozenset(uses)) for host, port, uses in private),
        secrets=tuple(SecretBinding(ref, frozenset(hosts)) for ref, hosts in secrets),
        open_for=frozenset(open_for),
        max_hops=max_hops,
        own=(("127.0.0.1", web_port),) if web_port else (),
        web_port=web_port,
    )


def _embedding(key: str = "", **options: Any) -> EmbeddingOptions:
    return EmbeddingOptions(read_key=lambda: key, **options)


async def _stop(worker: Worker, told: asyncio.Event) -> None:
    await told.wait()
    worker.stop()


async def _tell(ready: asyncio.Event) -> None:
    await ready.wait()
    print("ready", flush=True)


if __name__ == "__main__":
    if sys.platform == "linux":  # a killed test run leaves no processes behind
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    load_log_format()
    configure_logging("info", "console", collapses=False)  # tests count repeated events
    uvloop.run(serve(json.loads(sys.argv[1])))
