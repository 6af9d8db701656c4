"""A worker as a child process, with recorded steps and optionally a shifted clock."""

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.child import ChildProcess
from tests.support.waiting import wait_for


def start_worker_process(
    socket: Path,
    root: Path,
    environment: Mapping[str, str] | None = None,
    *,
    fresh: bool = False,
    **config: Any,
) -> ChildProcess:
    """Start a worker and return when it is ready; run_worker documents `config`."""
    root.mkdir(parents=True, exist_ok=True)
    given = json.dumps({"socket": str(socket), "root": str(root)} | config, default=str)
    log = root.parent / "worker.log"
    return ChildProcess("tests.support.run_worker", [given], log, environment, fresh=fresh)


def arm(worker: ChildProcess) -> None:
    """Make a worker that was started with `armed` false count its steps from now on."""
    worker.send_signal(signal.SIGUSR1)
    wait_for(lambda: "armed" in worker.output.splitlines(), "it is armed")
