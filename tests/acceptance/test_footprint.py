"""The memory of a worker stays below its limit on the main job, and each process loads only its
part.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.bundles import make_bundle, make_uid
from tests.support.child import CHECKOUT, ChildProcess
from tests.support.system import TestSystem

MOST_MB = 85
WRITES = 5_000
# Loaded only with `web.jwt` or `memory.seal_keys`, and never by a worker.
CRYPTOGRAPHY = {"jwt", "cryptography.hazmat", "memrelay.memory.models.shared_stores.sealing"}


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_worker_stays_within_its_memory_limit() -> None:
    uid = make_uid()
    with TestSystem() as system:
        places = {
            "MEMRELAY_BUS__URL": f"unix://{system.server.socket_path}",
            "MEMRELAY_MEMORY__ROOT": str(system.root),
        }
        log = system.folder / "worker.log"
        worker = ChildProcess("memrelay.cli.main", ["worker"], log, places, fresh=True)
        system.workers.append(worker)
        system.deploy(make_bundle(uid))

        system.client.enter_together(
            uid, (f"/write note {number} on tea and a meeting at three" for number in range(WRITES))
        )
        system.client.await_quiet(uid, within_s=60)

        assert resident_mb(worker.pid) < MOST_MB
        assert len(system.contents(uid)) == WRITES
        assert worker.stop() == 0


@pytest.mark.parametrize(
    "command, others",
    [
        ("worker", {"aiohttp", "jinja2", "numpy", "Stemmer", "memrelay.web.app", *CRYPTOGRAPHY}),
        (
            "worker",
            {"cronsim", "jsonschema", "memrelay.tracing.provider", "memrelay.worker.endpoints"},
        ),
        ("web", {"mcp", "mcp_types", "jsonschema", "starlette", *CRYPTOGRAPHY}),
        ("say", {"jinja2", "pydantic_settings", "structlog", "memrelay.worker.service"}),
        ("bus", {"aiohttp", "memrelay.web.app", "memrelay.worker.service"}),
    ],
)
def test_a_process_loads_only_its_part(command: str, others: set[str]) -> None:
    program = f"import sys, memrelay.cli.main, memrelay.cli.commands.{command}; print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    assert not others & set(done.stdout.split())


def test_the_log_of_a_worker_loads_no_rich_tracebacks() -> None:
    # The command runs until its settings are refused, and logs nothing itself.
    program = (
        "import sys; from memrelay.cli.main import run_command\n"
        "try: run_command(['worker'])\n"
        "except SystemExit: print(*sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=CHECKOUT,
        env=os.environ | {"MEMRELAY_BUS__URL": "no address"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    loaded = set(done.stdout.split())
    assert "structlog" in loaded
    assert not loaded & {"rich.console", "rich.traceback", "pygments"}
