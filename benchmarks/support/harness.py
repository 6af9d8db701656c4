"""Shared parts of the benchmarks: options, a temporary bus, processes, and the JSON results."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memrelay.bus.embedded.launcher import EmbeddedServer

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
UNLIMITED = {
    "MEMRELAY_WEB__RATE": "0",
    "MEMRELAY_BUS__MAX_BACKLOG": str(10**9),
    "MEMRELAY_BUS__MAX_BACKLOG_BYTES": str(10**12),
}


def make_parser(description: str | None, rounds: int) -> argparse.ArgumentParser:
    """Return a parser with `--rounds` and `--json`. A program adds its own options."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--json", type=Path)
    return parser


def write_result(result: dict[str, Any], file: Path | None) -> None:
    """Write the result as JSON if a file is given."""
    if file:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(result, indent=1))


@contextmanager
def temporary_bus(name: str) -> Iterator[tuple[Path, EmbeddedServer]]:
    """Yield a temporary folder and a running bus in it, which needs no password."""
    folder = Path(tempfile.mkdtemp(prefix=name))
    server = EmbeddedServer(folder / "bus", with_password=False)
    server.start()
    try:
        yield folder, server
    finally:
        server.stop()
        shutil.rmtree(folder)


def start_peer(program: str, *arguments: str | Path) -> tuple[subprocess.Popen[str], int]:
    """Start a program of this folder. Return the process and the port that it prints."""
    process = subprocess.Popen(
        [sys.executable, HERE / program, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def start_memrelay_processes(
    folder: Path,
    socket: Path,
    bundle: dict[str, Any],
    roles: Sequence[str],
    *,
    checkout: Path = CHECKOUT,
    **environment: str,
) -> tuple[list[subprocess.Popen[str]], int]:
    """Start `memrelay worker`, `memrelay web` or both, with one pipeline and no rate limits. Return
    the processes in the order of `roles` and the port of the web server. `checkout` is the folder
    of another commit to run."""
    (folder / "bundle.json").write_text(json.dumps(bundle))
    settings = (
        os.environ
        | UNLIMITED
        | environment
        | {
            "MEMRELAY_BUS__URL": f"unix://{socket}",
            "MEMRELAY_MEMORY__ROOT": str(folder / "memory"),
            "MEMRELAY_WEB__PORT": "0",
            "MEMRELAY_LOG__FORMAT": "json",
        }
    )
    command = [sys.executable, "-m", "memrelay.cli.main"]
    subprocess.run(
        [*command, "deploy", folder / "bundle.json"],
        env=settings,
        cwd=checkout,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    started = [
        subprocess.Popen(
            [*command, role], env=settings, cwd=checkout, stderr=subprocess.PIPE, text=True
        )
        for role in roles
    ]
    ready = [_wait_until_ready(process) for process in started]
    return started, int(ready[-1]["url"].rpartition(":")[2])


def _wait_until_ready(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the log line that reports that the process is ready."""
    assert process.stderr is not None
    while (line := json.loads(process.stderr.readline()))["event"] not in (
        "pipelines_served",
        "web_ready",
    ):
        pass
    return line  # type: ignore[no-any-return]


def stop_all(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Stop the processes and wait for them."""
    for process in processes:
        process.terminate()
        process.wait(20)
