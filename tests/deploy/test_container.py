"""The entry point of the container, as another user with a read-only root and a small volume.

There is no container engine here: the namespaces of the kernel take its place.
"""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.child import CHECKOUT
from tests.support.disk import SmallDisk
from tests.support.http import Answer, ask
from tests.support.program import environment_without_settings
from tests.support.waiting import LATE_S, wait_for

ENTRY_POINT = CHECKOUT / "deploy" / "container" / "entrypoint.sh"
CONTAINER = CHECKOUT / "tests" / "support" / "container.sh"
NAMESPACE = ("unshare", "--mount", "--propagation", "private")
GRACE_S = 30  # stop_grace_period in compose.yaml, terminationGracePeriodSeconds in Kubernetes


def _has_namespaces() -> bool:
    tools = all(map(shutil.which, ("unshare", "setpriv", "mount")))
    return tools and subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not _has_namespaces(),
    reason="only root of Linux may make namespaces",
)


class Container:
    """The process of the entry point. `volume` shows its volume while it runs."""

    def __init__(self, folder: Path) -> None:
        self._data, self._log = folder / "data", folder / "log"
        self._data.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.environment = environment_without_settings() | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(CHECKOUT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(self._data),
            "HOME": str(self._data),
            "FIRST_KEY_FILE": str(self._data / "first-key"),
            "MEMRELAY_BUS__DATA": str(self._data / "bus"),
            "MEMRELAY_MEMORY__ROOT": str(self._data / "memory"),
            "MEMRELAY_WEB__HOST": "0.0.0.0",
            "MEMRELAY_WEB__PORT": str(port),
        }

    def start(self, *command: str, size: str = "64m") -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*NAMESPACE, CONTAINER, self._data, size, ENTRY_POINT, *command],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def await_ready(self) -> None:
        wait_for(
            lambda: "Press Ctrl-C" in self.output or self.process.poll() is not None, "it is up"
        )
        assert self.process.poll() is None, self.output

    @property
    def output(self) -> str:
        return self._log.read_text()

    @property
    def volume(self) -> Path:
        return Path(f"/proc/{self.process.pid}/root{self._data}")

    def is_healthy(self) -> bool:
        command = [ENTRY_POINT, "check-health"]
        check = subprocess.run(command, env=self.environment, capture_output=True, timeout=60)
        return check.returncode == 0


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    made = Container(tmp_path)
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def test_a_container_creates_its_first_key_serves_and_ends_within_the_grace_period(
    container: Container,
) -> None:
    container.start("up")
    container.await_ready()
    key_file = container.volume / "first-key"
    headers = {"Authorization": f"Bearer {key_file.read_text().strip()}"}

    def call(method: str, path: str, body: str = "") -> Answer:
        return ask(container.url, method, path, body, headers)

    (pipeline,) = call("GET", "/v1/pipelines").json["items"]
    records = f"/v1/pipelines/{pipeline['pipeline_uid']}/records"

    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert key_file.stat().st_uid == 10001
    assert [name.name for name in container.volume.iterdir() if "first-key." in name.name] == []
    assert ask(container.url, "GET", "/v1/pipelines").status == 401
    wait_for(
        lambda: call("POST", records, '{"content": "Ada likes tea"}').status == 201,
        "a worker serves the pipeline",
    )
    assert ask(container.url, "GET", "/ready?workers=1").status == 200
    assert container.is_healthy()

    container.process.send_signal(signal.SIGTERM)

    assert container.process.wait(GRACE_S + LATE_S) == 0
    assert not container.is_healthy()


def test_a_container_with_a_full_volume_refuses_messages_and_recovers(
    container: Container,
) -> None:
    container.start("up")
    container.await_ready()
    headers = {"Authorization": f"Bearer {(container.volume / 'first-key').read_text().strip()}"}
    (pipeline,) = ask(container.url, "GET", "/v1/pipelines", headers=headers).json["items"]
    path = f"/v1/pipelines/{pipeline['pipeline_uid']}/records"

    def write() -> int:
        return ask(container.url, "POST", path, '{"content": "tea"}', headers).status

    disk = SmallDisk(container.volume)
    disk.fill()
    wait_for(lambda: write() == 503, "the container refuses messages")
    disk.free()

    wait_for(lambda: write() == 201, "the container accepts messages")
    assert container.process.poll() is None


def test_a_container_does_not_start_on_a_volume_without_space(container: Container) -> None:
    container.start("up", size="16k")

    assert container.process.wait(60) == 1
    assert "database or disk is full; make room" in container.output
    assert "Traceback" not in container.output


def test_a_container_without_a_key_file_says_how_to_create_a_key(container: Container) -> None:
    container.environment["FIRST_KEY_FILE"] = ""
    container.start("up")

    assert container.process.wait(60) == 1
    assert "memrelay keys create" in container.output


def test_the_entry_point_puts_percent_encoded_passwords_into_the_urls(tmp_path: Path) -> None:
    program = tmp_path / "memrelay"
    program.write_text("#!/bin/sh\necho $MEMRELAY_BUS__URL $MEMRELAY_STORAGE__URL\n")
    program.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "BUS_PASSWORD": r"p@s/s w:%$1\1",
        "STORAGE_PASSWORD": "#?&",
        "MEMRELAY_BUS__URL": "redis://:{BUS_PASSWORD}@valkey:6379/0",
        "MEMRELAY_STORAGE__URL": "postgresql://memrelay:{STORAGE_PASSWORD}@postgres/memrelay",
    }
    command = [ENTRY_POINT, "worker"]

    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    without = {name: value for name, value in environment.items() if name != "BUS_PASSWORD"}
    failed = subprocess.run(command, env=without, capture_output=True, text=True)

    assert done.stdout.split() == [
        "redis://:p%40s%2Fs%20w%3A%25%241%5C1@valkey:6379/0",
        "postgresql://memrelay:%23%3F%26@postgres/memrelay",
    ]
    assert failed.returncode != 0 and "BUS_PASSWORD" in failed.stderr
