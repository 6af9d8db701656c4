"""What the measuring programs share: options, a folder with a bus of its own, our programs, and the
JSON of every round."""

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
UNLIMITED = {
    "MEMRELAY_WEB__RATE": "0",
    "MEMRELAY_BUS__MAX_BACKLOG": str(10**9),
    "MEMRELAY_BUS__MAX_BACKLOG_BYTES": str(10**12),
}


def options(about: str | None, rounds: int) -> argparse.ArgumentParser:
    """`--rounds` and `--json`, to which a program adds its own."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--json", type=Path)
    return parser


def keep(result: dict[str, Any], file: Path | None) -> None:
    """Writes a result where it is wanted."""
    if file:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(result, indent=1))


@contextmanager
def bus_of_its_own(name: str) -> Iterator[tuple[Path, EmbeddedServer]]:
    """A folder, and a server in it; both are gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=name))
    server = EmbeddedServer(folder / "bus")
    server.start()
    try:
        yield folder, server
    finally:
        server.stop()
        shutil.rmtree(folder)


def start_peer(program: str, *arguments: str | Path) -> tuple[subprocess.Popen[str], int]:
    """(a program of this folder that says its port, that port)."""
    process = subprocess.Popen(
        [sys.executable, HERE / program, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def start_product(
    folder: Path,
    socket: Path,
    bundle: dict[str, Any],
    roles: Sequence[str],
    **environment: str,
) -> tuple[list[subprocess.Popen[str]], int]:
    """(`memrelay worker`, `memrelay web` or both, in this order, with one pipeline and no limits;
    the web's port)."""
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
        cwd=HERE.parent,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    started = [
        subprocess.Popen(
            [*command, role], env=settings, cwd=HERE.parent, stderr=subprocess.PIPE, text=True
        )
        for role in roles
    ]
    told = [_ready(process) for process in started]
    return started, int(told[-1]["url"].rpartition(":")[2])


def _ready(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What it says when it is."""
    assert process.stderr is not None
    while (told := json.loads(process.stderr.readline()))["event"] not in (
        "pipelines_served",
        "web_ready",
    ):
        pass
    return told  # type: ignore[no-any-return]


def end(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Ends what was started."""
    for process in processes:
        process.terminate()
        process.wait(20)
