"""A plugin for pytest: the fixture `server`, `memrelay up` with its sample pipeline."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from memrelay import connect, connect_sync
from memrelay.client.http import BlockingClient, Client

START_S, END_S, PAUSE_S = 60.0, 20.0, 0.05


class Server(NamedTuple):
    """A server without keys. `uid` is its only pipeline."""

    url: str
    uid: str

    def connect(self) -> Client:
        """Return an asyncio client, to be used with `async with`."""
        return connect(self.url)

    def connect_sync(self) -> BlockingClient:
        """Return a blocking client, to be used with `with`."""
        return connect_sync(self.url)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server that runs until the end of the module."""
    with serve(tmp_path_factory.mktemp("server")) as started:
        yield started


@contextmanager
def serve(folder: Path) -> Iterator[Server]:
    """Run `memrelay up` with its data in a folder, on a free port of loopback."""
    settings = {
        "MEMRELAY_BUS__DATA": str(folder / "bus"),
        "MEMRELAY_LOG__FORMAT": "json",
        "MEMRELAY_MEMORY__ROOT": str(folder / "memory"),
        "MEMRELAY_WEB__PORT": "0",
    }
    log = folder / "up.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("memrelay")), "up"],
            cwd=folder,
            env=os.environ | settings,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        url = _await_event(process, log, "web_ready")["url"]
        uid = _await_event(process, log, "pipelines_served")["pipelines"][0]
        yield Server(url, uid)
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(END_S)


def _await_event(process: subprocess.Popen[bytes], log: Path, name: str) -> dict[str, Any]:
    """Return the first event of a name in the log."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        for line in log.read_text(errors="replace").splitlines():
            if f'"{name}"' in line and line.endswith("}"):
                event: dict[str, Any] = json.loads(line)
                return event
        assert process.poll() is None, log.read_text(errors="replace")[-4000:]
        time.sleep(PAUSE_S)
    raise AssertionError(f"no {name} after {START_S:g} s:\n{log.read_text()[-4000:]}")
