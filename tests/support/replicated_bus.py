"""Real bus servers with a replica and Sentinels, on ports of loopback."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis
from redis.crc import key_slot

from memrelay.bus.client.connection import connect
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.binary import find_binary
from tests.support.waiting import wait_for

CELL = "c00"  # the first cell, whose primary is killed and whose slot moves
SERVICE = "memrelay-test"
PASSWORD = "secret"
DOWN_AFTER_MS = 1000
SENTINEL = f"""
port {{port}}
bind 127.0.0.1
dir {{folder}}
sentinel monitor {SERVICE} 127.0.0.1 {{primary}} 2
sentinel auth-pass {SERVICE} {PASSWORD}
sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}
sentinel failover-timeout {SERVICE} 2000
sentinel parallel-syncs {SERVICE} 1
"""


def free_port() -> int:
    """Return a free port of loopback below 50,000."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = int(server.getsockname()[1])
        if port < 50_000:
            return port


async def ask_both(address: Address) -> list[int]:
    """Return the port of the server that each kind of connection reaches."""
    async with ReconnectingConnection(address) as control:
        replies = [await control.call("CONFIG", "GET", "port")]
    data = await connect(address)
    replies.append(await data.call("CONFIG", "GET", "port"))
    await data.close()
    return [int(port) for _, port in replies]


class BusServer:
    """One server process, which can be killed and started again on its files."""

    def __init__(self, folder: Path, port: int, *words: str) -> None:
        self.folder, self.port, self.words = folder, port, words
        folder.mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        """Start the server and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [find_binary(None), *self.words, *more], cwd=self.folder, stdout=log, stderr=log
            )
        wait_for(self.answers, f"the server on port {self.port} answers")

    @property
    def lives(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def client(self, *, password: str | None = PASSWORD) -> redis.Redis:
        return redis.Redis(port=self.port, password=password, socket_timeout=5)

    def answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.AuthenticationError:  # a Sentinel has no password
            return True
        except redis.RedisError:
            return False

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """Send SIGKILL and wait until the process has ended."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()


class SentinelBus:
    """A primary, its replicas and three Sentinels, as a context. `kill_primary` causes a
    failover.
    """

    def __init__(self, folder: Path, replicas: int = 2) -> None:
        self._folder, self._replicas = folder, replicas
        self.servers: list[BusServer] = []
        self.sentinels: list[BusServer] = []

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._kill_all)
            self._start()
            undo.pop_all()
        return self

    def _start(self) -> None:
        primary = self._start_server()
        for _ in range(self._replicas):
            self._start_server("--replicaof", "127.0.0.1", str(primary.port))
        wait_for(lambda: self._has_replicas(primary), "the replicas are connected")
        for number in range(3):
            self.start_sentinel(str(number), primary.port)
        wait_for(lambda: all(map(self._knows_the_others, self.sentinels)), "Sentinel is complete")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kill_all()

    def _kill_all(self) -> None:
        for server in [*self.sentinels, *self.servers]:
            server.kill()

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels)
        return f"sentinel://:{PASSWORD}@{hosts}/{SERVICE}"

    def info(self, server: BusServer) -> dict[str, object]:
        with server.client() as client:
            found: dict[str, object] = client.info("replication")
            return found

    @property
    def primary(self) -> BusServer:
        """Return the live primary, once Sentinel has chosen it."""
        return wait_for(self._find_primary, "there is a primary")

    def _find_primary(self) -> BusServer | None:
        with suppress(redis.RedisError):
            return next(
                (
                    one
                    for one in self.servers
                    if one.lives and self.info(one)["role"] == "master" and self._is_named(one)
                ),
                None,
            )
        return None

    def _is_named(self, server: BusServer) -> bool:
        """Return whether the Sentinels name it the primary."""
        for sentinel in self.sentinels:
            with sentinel.client(password=None) as client:
                reply = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
                if int(reply[1]) != server.port:
                    return False
        return True

    def kill_primary(self) -> BusServer:
        """Kill the primary, and return it."""
        killed = self.primary
        killed.kill()
        return killed

    def restore(self, killed: BusServer) -> None:
        """Start a killed server as a replica of the new primary, and wait until it is one."""
        killed.start("--replicaof", "127.0.0.1", str(self.primary.port))
        # A slow machine can cause another failover meanwhile.
        wait_for(
            lambda: (primary := self._find_primary()) and self._has_replicas(primary),
            "the killed server is a replica",
        )

    def _has_replicas(self, primary: BusServer) -> bool:
        found = self.info(primary)
        states = [found.get(f"slave{number}") for number in range(self._replicas)]
        return all(isinstance(state, dict) and state["state"] == "online" for state in states)

    def _start_server(self, *words: str) -> BusServer:
        port = free_port()
        login = ("--requirepass", PASSWORD, "--masterauth", PASSWORD)
        durable = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
        quick = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
        place = ("--port", str(port), "--bind", "127.0.0.1")
        server = BusServer(self._folder / f"server-{port}", port, *place, *login, *durable, *quick)
        server.start(*words)
        self.servers.append(server)
        return server

    def start_sentinel(self, name: str, primary: int) -> BusServer:
        port, folder = free_port(), self._folder / f"sentinel-{name}"
        config = folder / "sentinel.conf"
        server = BusServer(folder, port, str(config), "--sentinel")
        config.write_text(SENTINEL.format(port=port, folder=folder, primary=primary))
        server.start()
        self.sentinels.append(server)
        return server

    def _knows_the_others(self, sentinel: BusServer) -> bool:
        with sentinel.client(password=None) as client:
            states = client.sentinel_masters()
        state = states[SERVICE]
        return state["num-other-sentinels"] == 2 and state["num-slaves"] == self._replicas


@contextmanager
def single_server(folder: Path) -> Iterator[BusServer]:
    """Run one server that other hosts can reach."""
    port = free_port()
    durable = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
    place = ("--port", str(port), "--bind", "127.0.0.1", "--requirepass", PASSWORD)
    server = BusServer(folder, port, *place, *durable)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def single_bus(folder: Path) -> Iterator[str]:
    """Run one server that other hosts can reach, and yield its URL."""
    with single_server(folder) as server:
        yield f"redis://:{PASSWORD}@127.0.0.1:{server.port}/0"


class ClusterBus:
    """A cluster of three primaries, each with a replica or none, as a context."""

    def __init__(self, folder: Path, *, with_replicas: bool = True) -> None:
        self._folder, self._count = folder, 6 if with_replicas else 3
        self.servers: list[BusServer] = []

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._kill_all)
            self._start()
            undo.pop_all()
        return self

    def _kill_all(self) -> None:
        for server in self.servers:
            server.kill()

    def _start(self) -> None:
        for _ in range(self._count):
            self._start_server()
        first, *others = self.servers
        for server in others:
            self._call(first, "CLUSTER", "MEET", "127.0.0.1", server.port, self._bus_port(server))
        wait_for(lambda: all(map(self._knows_all, self.servers)), "the nodes have met")
        for number, server in enumerate(self.servers[:3]):
            last = (number + 1) * 5462 - 1
            self._call(server, "CLUSTER", "ADDSLOTSRANGE", number * 5462, min(last, 16383))
        for replica, primary in zip(self.servers[3:], self.servers[:3], strict=False):
            ident = self._call(primary, "CLUSTER", "MYID")
            wait_for(lambda r=replica, i=ident: self._may_call(r, "CLUSTER", "REPLICATE", i), "ok")
        wait_for(self.is_whole, "the cluster is whole")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kill_all()

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in self.servers)
        return f"cluster://:{PASSWORD}@{hosts}"

    @property
    def owner(self) -> BusServer:
        """Return the primary of Memrelay's keys."""
        return wait_for(self._find_owner, "a primary has the keys")

    def kill_owner(self) -> BusServer:
        """Kill the primary of Memrelay's keys, and return it once another one has them."""
        killed = self.owner
        killed.kill()
        wait_for(lambda: (found := self._find_owner()) and found is not killed, "a replica follows")
        return killed

    def pause_owner(self, least_s: float) -> None:
        """Pause the primary of Memrelay's keys until another one has them, at least so long."""
        paused, began_s = self.owner, time.monotonic()
        asked = next(one for one in self.servers if one is not paused)
        paused.send_signal(signal.SIGSTOP)
        try:
            wait_for(
                lambda: self._find_owner_port(asked) not in (0, paused.port), "a replica follows"
            )
            time.sleep(max(0, began_s + least_s - time.monotonic()))
        finally:
            paused.send_signal(signal.SIGCONT)
        wait_for(self.is_whole, "the cluster is whole")

    def restore(self, killed: BusServer) -> None:
        """Start a killed server, which becomes a replica."""
        killed.start()
        wait_for(self.is_whole, "the cluster is whole")

    def move_keys(self) -> None:
        """Move the slot of Memrelay's keys to another primary."""
        owner, slot = self.owner, key_slot(f"{{{CELL}}}".encode())
        target = next(one for one in self.servers if one is not owner and self._is_primary(one))
        ident = self._call(target, "CLUSTER", "MYID")
        words = ("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", ident)
        self._call(owner, *words)
        wait_for(lambda: self._find_owner() is target, "the keys have moved")

    def is_whole(self) -> bool:
        """Return whether all slots are served, with a replica for each primary."""
        return (
            all(b"cluster_state:ok" in self._call(one, "CLUSTER", "INFO") for one in self.servers)
            and sum(map(self._has_replica, self.servers)) == self._count - 3
        )

    def _has_replica(self, server: BusServer) -> bool:
        role = self._call(server, "ROLE")
        return role[0] == b"master" and len(role[2]) > 0

    def _is_primary(self, server: BusServer) -> bool:
        return server.lives and self._call(server, "ROLE")[0] == b"master"

    def _find_owner(self) -> BusServer | None:
        for asked in self.servers:
            if asked.lives and (port := self._find_owner_port(asked)):
                found = next(one for one in self.servers if one.port == port)
                return found if self._is_primary(found) else None
        return None

    def _find_owner_port(self, asked: BusServer) -> int:
        """Return the port of the primary of Memrelay's keys, 0 if the server knows none."""
        slot = key_slot(f"{{{CELL}}}".encode())
        if b"cluster_state:ok" not in self._call(asked, "CLUSTER", "INFO"):
            return 0
        for first, last, primary, *_ in self._call(asked, "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return int(primary[1])
        return 0

    def _knows_all(self, server: BusServer) -> bool:
        return b"cluster_known_nodes:%d" % self._count in self._call(server, "CLUSTER", "INFO")

    def _may_call(self, server: BusServer, *words: str | int) -> bool:
        with suppress(redis.ResponseError):
            self._call(server, *words)
            return True
        return False

    def _call(self, server: BusServer, *words: str | int) -> Any:
        with server.client() as client:
            client.response_callbacks.clear()
            return client.execute_command(*words)

    def _bus_port(self, server: BusServer) -> int:
        return int(server.words[server.words.index("--cluster-port") + 1])

    def _start_server(self) -> None:
        port = free_port()
        login = ("--requirepass", PASSWORD, "--masterauth", PASSWORD)
        durable = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
        quick = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
        cluster = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1500")
        place = ("--port", str(port), "--cluster-port", str(free_port()), "--bind", "127.0.0.1")
        words = (*place, *login, *durable, *quick, *cluster)
        server = BusServer(self._folder / f"server-{port}", port, *words)
        server.start()
        self.servers.append(server)
