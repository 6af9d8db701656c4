"""A damaged append-only file: the error has a command that repairs it."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import AppendOnlyFileLeft, ServerDidNotStart
from tests.support.waiting import wait_for


@contextmanager
def served(folder: Path) -> Iterator[redis.Redis]:
    """Yield a client of a server on the folder, which ends afterwards."""
    server = EmbeddedServer(folder, with_password=False)
    server.start()
    try:
        with redis.Redis(unix_socket_path=str(server.socket_path)) as client:
            yield client
    finally:
        server.stop()


@pytest.mark.skipif(shutil.which("bash") is None, reason="the repair uses bash")
def test_the_error_for_a_damaged_file_has_a_command_that_repairs_it(tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    with served(folder) as client:
        for number in range(100):
            client.rpush("list", f"{number} {'x' * 20}")
    file = next((folder / "appendonlydir").glob("*.incr.aof"))
    content = file.read_bytes()
    file.write_bytes(content[:3000] + b"Z" * 40 + content[3040:])

    with pytest.raises(ServerDidNotStart) as refused:
        EmbeddedServer(folder).start()
    command = next(
        line.partition("run: ")[2] for line in str(refused.value).splitlines() if "run: " in line
    )
    subprocess.run(
        ["bash", "-c", command], input=b"y\n", check=True, capture_output=True, timeout=120
    )

    with served(folder) as client:
        assert 10 < client.llen("list") < 100


@pytest.mark.parametrize("left", [None, 0, 1, 1.5])
def test_the_error_for_a_lost_or_truncated_manifest_has_a_command_that_recreates_it(
    tmp_path: Path, left: float | None
) -> None:
    folder = tmp_path / "it's here"
    with served(folder) as client:
        client.rpush("list", *range(100))
    manifest = folder / "appendonlydir" / "appendonly.aof.manifest"
    lines = manifest.read_text().splitlines(keepends=True)
    manifest.unlink()
    if left is not None:
        manifest.write_text("".join(lines)[: int(left * len(lines[0]))])

    with pytest.raises(AppendOnlyFileLeft) as refused:
        EmbeddedServer(folder).start()
    command = next(
        line.partition("run: ")[2] for line in str(refused.value).splitlines() if "run: " in line
    )
    subprocess.run(["sh", "-c", command], check=True, timeout=120)

    assert manifest.read_text() == "".join(lines)
    with served(folder) as client:
        assert client.llen("list") == 100


def test_files_of_an_interrupted_rewrite_are_accepted(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        client.rpush("list", *range(100))
    (tmp_path / "appendonlydir" / "appendonly.aof.2.base.aof").write_bytes(b"*1\r\n$4\r\nPING\r\n")
    (tmp_path / "appendonlydir" / "appendonly.aof.2.incr.aof").touch()

    with served(tmp_path) as client:
        assert client.llen("list") == 100
        client.bgrewriteaof()
        wait_for(
            lambda: not client.info("persistence")["aof_rewrite_in_progress"], "it is rewritten"
        )

    with served(tmp_path) as client:
        assert client.llen("list") == 100
