"""A relay between a worker and the server that passes replies on only while the worker waits.

So each run delivers the same replies, in the same pieces, at the same points of the worker's work.
Requests pass at once, and are counted.
"""

import select
import socket
import threading
from asyncio import AbstractEventLoop
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hiredis
import uvloop

from tests.guard.probes import Probes

RECEIVE_BYTES = 1 << 20
# Replies are passed on in pieces of this size. It fits the buffers of sockets and of the loop.
PIECE_BYTES = 64 << 10
# Turns of the loop without a call after which the worker waits.
TURNS = 5
PAUSE_S, PATIENCE_S = 0.0005, 30.0


class Link:
    """One connection of the worker and its connection to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        client.setblocking(False)
        self.requests, self.replies = hiredis.Reader(), hiredis.Reader()
        self.received = bytearray()  # from the server, and not yet passed on
        self.missing = 0  # replies
        self.is_subscribed = self.is_blocked = False

    @property
    def awaits_reply(self) -> bool:
        """Whether a reply is due that does not depend on later messages."""
        return not self.is_subscribed and self.missing > self.is_blocked


class Relay:
    """Accepts the worker's connections at the socket `path`. All methods run in one thread."""

    def __init__(self, path: Path, server: Path, loop: AbstractEventLoop, probes: Probes) -> None:
        self._server, self._loop, self._probes = str(server), loop, probes
        self._links: list[Link] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._barrier = self._connect()
        self._lease = b"lease"
        # Since the last `start`.
        self.commands: dict[str, int] = defaultdict(int)
        self.bytes = 0
        self.reads: list[int] = []  # the entries in each reply to a read

    def pass_freely(self, until: Callable[[], bool]) -> None:
        """Pass on everything at once until a condition holds."""
        while not until():
            self._wait([self._listener, *(link.server for link in self._links)], PAUSE_S)
            self._pass_requests()
            for link in self._links:
                self._receive(link)
                self._deliver(link)

    def start(self) -> None:
        """Count from now on."""
        self.commands, self.bytes, self.reads = defaultdict(int), 0, []

    def pass_in_turns(self) -> None:
        """Pass on replies, those of one connection at a time, until there is nothing to do."""
        self._wait_for_worker()
        while (link := self._next_link()) is not None:
            self._deliver(link)
            self._wait_for_worker()

    def _connect(self) -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._server)
        return server

    def _wait(self, sockets: list[socket.socket], seconds: float) -> list[socket.socket]:
        return select.select(sockets, [], [], seconds)[0]

    def _pass_requests(self) -> bool:
        """Pass on the commands that the worker has sent. Return whether there were any."""
        if self._wait([self._listener], 0):
            self._links.append(Link(self._listener.accept()[0], self._connect()))
        passed = False
        for link in self._links:
            while self._wait([link.client], 0) and (data := link.client.recv(RECEIVE_BYTES)):
                link.requests.feed(data)
                passed = True
            commands = []
            while (words := link.requests.gets()) is not False:
                commands.append(self._note_command(link, words))
            link.server.sendall(b"".join(commands))
        return passed

    def _note_command(self, link: Link, words: list[bytes]) -> bytes:
        """Count a command, and return what the server gets: no read ends because of its time."""
        name = words[0].decode().upper()
        self.commands[name] += 1
        link.missing += 1
        link.is_blocked = b"BLOCK" in words and name == "XREADGROUP"
        link.is_subscribed = link.is_subscribed or name.endswith("SUBSCRIBE")
        if name == "XREADGROUP":
            self._lease = words[3]
        # The name of the lease has the host's name and a process ID.
        self.bytes += len(_pack([word.replace(self._lease, b"lease") for word in words]))
        if link.is_blocked:
            words[words.index(b"BLOCK") + 1] = b"0"
        return _pack(words)

    def _receive(self, link: Link) -> bool:
        """Take in what the server has sent. Return whether there was anything."""
        before = len(link.received)
        while self._wait([link.server], 0) and (data := link.server.recv(RECEIVE_BYTES)):
            link.received += data
            link.replies.feed(data)
            while (reply := link.replies.gets()) is not False:
                link.missing -= 1
                if link.is_blocked and not link.missing:
                    self.reads += [len(entries) for _, entries in reply or ()]
        return len(link.received) > before

    def _next_link(self) -> Link | None:
        """Return the first connection with replies, once the server has sent all that is due."""
        for link in self._links:
            while link.awaits_reply:
                assert self._wait([link.server], PATIENCE_S), "the server does not answer"
                self._receive(link)
        silent = 0
        while silent < TURNS:
            # The server answers this after it has sent other connections what it owes them, or a
            # part of that.
            self._barrier.sendall(b"PING\r\n")
            assert self._barrier.recv(RECEIVE_BYTES) == b"+PONG\r\n"
            has_more = [self._receive(link) or link.replies.has_data() for link in self._links]
            silent = 0 if any(has_more) else silent + 1
        return next((link for link in self._links if link.received), None)

    def _deliver(self, link: Link) -> None:
        """Let the loop's own thread send a piece, so that it receives the whole piece at once."""
        if piece := bytes(link.received[:PIECE_BYTES]):
            del link.received[:PIECE_BYTES]
            sent = self._in_loop(lambda: link.client.send(piece))
            assert sent == len(piece), "the buffer of a socket is smaller than a piece"

    def _wait_for_worker(self) -> None:
        """Return when the worker waits for the server and all of its commands are passed on."""
        before: tuple[Any, ...] = ()
        while True:
            for _ in range(TURNS):
                self._in_loop(None)
            # In the loop's own thread, so that the worker does not write meanwhile.
            has_passed = self._in_loop(self._pass_requests)
            now = self._probes.activity()
            if now == before and not has_passed and not now[1]:
                self._probes.sample_blocks()
                return
            before = now
            threading.Event().wait(PAUSE_S)

    def _in_loop(self, work: Callable[[], Any] | None) -> Any:
        """Let the loop make a turn with some work, and return its result."""
        results: list[Any] = []
        done = threading.Lock()
        done.acquire()
        # The method of the base class, whose call is not one of Python.
        call: Callable[..., Any] = uvloop.Loop.call_soon_threadsafe
        if work is not None:
            call(self._loop, lambda: results.append(work()))
        call(self._loop, done.release)
        assert done.acquire(timeout=PATIENCE_S), "the event loop of the worker hangs"
        return results[0] if work is not None else None


def _pack(words: list[bytes]) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)
