"""usage: python -m tests.support.fork_server DESCRIPTOR. Forks processes with loaded modules.

A fresh interpreter spends a second and more on the product's imports; a fork spends some
milliseconds. Each process of pytest has one server (forked.py), which ends with its children when
the socket of that descriptor closes. If that is a listening socket, each connection gets a fork of
the server, so that the processes of xdist share the time of the imports. The server has one thread,
so that forking is safe.

A start is one byte on the socket with four descriptors: stdin, stdout, stderr, and a channel, which
brings the `Order`. The server writes the process id to the channel and, when the process has ended,
its return code. It keeps the dead process until the channel closes, so that no other process gets
its id, and kills a process whose channel closes before.
"""

import ctypes
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from pkgutil import iter_modules
from typing import NamedTuple

from tests.support.cached_document import cache_document

MODULES = (
    "memrelay.cli.main",
    "memrelay.memory.control.postgres",
    "memrelay.memory.engine.journal.journal",
    "memrelay.web.auth.jwt_callers",
    "memrelay.web.mcp.transports.applications",
    "tests.support.blocks",
    "tests.support.operations",
)
PACKAGES = ("memrelay.blocks", "memrelay.cli.commands")  # with all their modules
# These load within their first use. Some of them start threads.
NOT_LOADED = ("numpy", "onnxruntime", "langgraph")
NUMBER = struct.Struct("!q")
PR_SET_PDEATHSIG = 1


class Order(NamedTuple):
    """`python -m MODULE ARGUMENTS` with a folder and an environment."""

    module: str
    arguments: list[str]
    folder: str
    environment: dict[str, str]

    def send(self, channel: socket.socket) -> None:
        data = json.dumps(self).encode()
        channel.sendall(NUMBER.pack(len(data)) + data)

    @classmethod
    def receive(cls, channel: socket.socket) -> "Order":
        return cls(*json.loads(receive(channel, NUMBER.unpack(receive(channel, NUMBER.size))[0])))


def receive(channel: socket.socket, count: int) -> bytes:
    """Return so many bytes. Raises EOFError if the other end closes before."""
    data = b""
    while len(data) < count:
        if not (chunk := channel.recv(count - len(data))):
            raise EOFError
        data += chunk
    return data


class Child(NamedTuple):
    """A forked process, which may have ended."""

    pid: int
    handle: int  # readable when the process has ended
    channel: socket.socket


class ForkServer:
    """Forks a child for each order on the control socket."""

    def __init__(self, control: socket.socket) -> None:
        self._control, self._selector = control, selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)
        self._children: dict[int, Child] = {}  # by process id

    def serve(self) -> Order | None:
        """Serve until the control socket closes. In a child, return what it has to run."""
        while self._control.fileno() >= 0:
            for key, _ in self._selector.select():
                order = self._handle(key)
                if order is not None:
                    return order
        return None

    def _handle(self, key: selectors.SelectorKey) -> Order | None:
        child: Child | None = key.data
        if child is None:
            return self._fork()
        if self._children.get(child.pid) is not child:
            return None  # removed by an event before this one
        if key.fileobj == child.handle:
            self._report(child)
        else:
            self._remove(child)
        return None

    def _fork(self) -> Order | None:
        """Fork for the next order, and return it in the child. At the end, close the control."""
        _, descriptors, _, _ = socket.recv_fds(self._control, 1, 4)
        if not descriptors:
            for child in list(self._children.values()):
                self._remove(child)
            self._control.close()
            return None
        *streams, channel_descriptor = descriptors
        channel = socket.socket(fileno=channel_descriptor)
        order = Order.receive(channel)
        pid = os.fork()
        if pid == 0:
            channel.close()
            self._begin(order, streams)
            return order
        for descriptor in streams:
            os.close(descriptor)
        child = Child(pid, os.pidfd_open(pid), channel)
        self._children[pid] = child
        self._selector.register(child.handle, selectors.EVENT_READ, child)
        self._selector.register(channel, selectors.EVENT_READ, child)
        _tell(channel, pid)
        return None

    def _report(self, child: Child) -> None:
        """Send the return code of a process, as `subprocess` has it, and leave it a zombie."""
        self._selector.unregister(child.handle)
        ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        has_exited = ended.si_code == os.CLD_EXITED
        _tell(child.channel, ended.si_status if has_exited else -ended.si_status)

    def _remove(self, child: Child) -> None:
        """Kill the process, if it is alive, and forget it."""
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        with suppress(KeyError):
            self._selector.unregister(child.handle)
        self._selector.unregister(child.channel)
        os.close(child.handle)
        child.channel.close()
        del self._children[child.pid]

    def _begin(self, order: Order, streams: list[int]) -> None:
        """Give the child its own streams, signals, environment and folder."""
        end_with_parent()
        self._selector.close()
        self._control.close()
        for child in self._children.values():
            os.close(child.handle)
            child.channel.close()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(0, closefd=False),
            os.fdopen(1, "w", closefd=False),
            os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False),
        )
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(order.environment)
        time.tzset()
        tempfile.tempdir = None
        os.chdir(order.folder)
        sys.argv = [order.module, *order.arguments]
        sys.path[0] = order.folder
        sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(":") if path]
        gc.enable()


def _tell(channel: socket.socket, number: int) -> None:
    with suppress(BrokenPipeError):  # the closed channel is the next event
        channel.sendall(NUMBER.pack(number))


def load() -> None:
    """Load the modules. Raises AssertionError if that loaded too much or started a thread."""
    gc.disable()
    for package in PACKAGES:
        for found in iter_modules(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(found.name)
    for module in MODULES:
        importlib.import_module(module)
    cache_document()
    too_many = [name for name in NOT_LOADED if name in sys.modules]
    assert not too_many, f"the fork server must not load {too_many}"
    threads = list(Path("/proc/self/task").iterdir())
    assert len(threads) == 1, f"a process with {len(threads)} threads cannot fork safely"
    gc.freeze()


def accept_in_fork(listener: socket.socket) -> socket.socket:
    """Return a connection in a fork of this process, which goes on until it is killed."""
    end_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel removes the dead forks
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            end_with_parent()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            return connection
        connection.close()


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group
    load()
    control = socket.socket(fileno=int(sys.argv[1]))
    if control.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        control = accept_in_fork(control)
    order = ForkServer(control).serve()
    if order is not None:
        sys.modules.pop(order.module, None)
        runpy.run_module(order.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
