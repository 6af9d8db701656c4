"""A worker as a child process, with the steps that it passes and a clock of its own where a test
wants them."""

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.child import ChildProcess
from tests.support.waiting import wait_for


def start_worker_process(
    socket: Path, root: Path, environment: Mapping[str, str] | None = None, **config: Any
) -> ChildProcess:
    """Starts at once, and says `ready` when it is; `config` as run_worker takes it."""
    root.mkdir(parents=True, exist_ok=True)
    given = json.dumps({"socket": str(socket), "root": str(root)} | config, default=str)
    return ChildProcess(
        "tests.support.run_worker", [given], root.parent / "worker.log", environment
    )


def arm(worker: ChildProcess) -> None:
    """Lets a worker that was started with `armed` false count its steps from now on."""
    worker.tell(signal.SIGUSR1)
    wait_for(lambda: "armed" in worker.said.splitlines(), "it is armed")
