"""A process that serves: the embedded bus, a worker, the web server, or all of them, until a signal
ends them in order.

What it serves it is handed, so that each process loads its own part alone: a web server would take
15 MB of a worker's 70.
"""

import asyncio
import ctypes
import gc
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Protocol

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.errors import BusError
from memrelay.cli.composition import NoBus, bus_address, run, settled
from memrelay.cli.logs import LogFormat
from memrelay.cli.settings import Settings

# File handles: each listener takes one, each open store three, and a shell's usual limit is
# 1,024.

WANTED = 65_536


def raise_handle_limit() -> None:
    """To as many as the system lets this process have, up to WANTED."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # macOS allows less than its hard limit says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


# The signals that end a process: the first one is heard, and nothing that comes after it cuts the
# end short.
#
# SIGHUP comes when a terminal is closed, and is let be where it was ignored from the start, as
# `nohup` has it.

ENDING = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


def told_to_end() -> asyncio.Event:
    """An event of the running loop, set by the first of them; from then on all are ignored.

    A loop's own handlers end with the loop, and a second signal would then kill the process while
    it ends its server.
    To be called in the main thread.
    """
    told, loop = asyncio.Event(), asyncio.get_running_loop()

    def tell(number: int, frame: FrameType | None) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        loop.call_soon_threadsafe(told.set)

    for number in ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, tell)
    return told


# What a serving process asks of its runtime: a collector that leaves messages alone, an allocator
# that gives memory back.

# mallopt's parameters (glibc, malloc.h) and what we set: one arena for all threads, and large
# blocks returned at once.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
LARGE_BYTES = 1024 * 1024


def settle_down() -> None:
    """To be called once, when everything is loaded.

    Messages hold no cycles, so the collector finds nothing in a batch, and costs a tenth of it at
    its defaults. glibc's
    arenas, one a thread, keep what a batch took: some 8 MB more on mixed work. A block that is
    returned costs its pages anew
    when it is taken again, so "large" is what a batch takes once, and not what each MULTI takes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # not in musl
        for parameter, value in (
            (M_ARENA_MAX, 1),
            (M_TRIM_THRESHOLD, LARGE_BYTES),
            (M_MMAP_THRESHOLD, LARGE_BYTES),
        ):
            libc.mallopt(parameter, value)
        libc.malloc_trim(0)  # the holes that loading left: 1.6 MB


BUS_COMES_WITHIN_S = 30.0  # when all processes of a Procfile start at once
SERVER_GRACE_S = 1.5  # what our server may take; killed, it loses nothing that it acknowledged
LEAVE_WITHIN_S = 4.0  # what those who use the bus may take to end; process managers kill after 5
LOOK_S = 0.05


class Service(Protocol):
    """Something that serves."""

    ready: asyncio.Event

    async def run(self) -> None:
        """Serves until `stop`."""

    def stop(self) -> None:
        """Asks it to end."""


Make = Callable[[Settings, Address], Service]
Prepare = Callable[[Settings, Sequence[Service]], Awaitable[None]]


def serve(
    *make: Make, with_bus: bool = False, prepare: Prepare | None = None, as_json: bool = False
) -> None:
    """Serves until SIGTERM or SIGINT, and ends the services in the order in which they are given.

    `with_bus` starts the embedded server, unless another is configured. `prepare` runs as soon as
    everything is ready.
    `as_json` is how the log is written.
    """
    log_format: LogFormat | None = "json" if as_json else None
    raise_handle_limit()
    server = settled(_start_server, log_format) if with_bus else None
    try:
        run(lambda settings: _serve(settings, server, make, prepare), log_format)
    finally:
        if server is not None:
            server.stop(SERVER_GRACE_S)


def _start_server(settings: Settings) -> EmbeddedServer | None:
    """Our own server, from the main thread, before anything else runs; None where another is
    configured."""
    if settings.bus.url:
        return None
    server = EmbeddedServer(
        settings.bus.data, str(settings.bus.server) if settings.bus.server else None
    )
    server.start()
    return server


async def _serve(
    settings: Settings, server: EmbeddedServer | None, make: Sequence[Make], prepare: Prepare | None
) -> None:
    told_to_stop = told_to_end()
    address = await _bus(settings, told_to_stop)
    services = [make_one(settings, address) for make_one in make]
    settle_down()
    async with asyncio.TaskGroup() as tasks:
        running = [(service, tasks.create_task(service.run())) for service in services]
        beside = [tasks.create_task(server.supervise())] if server else []
        if prepare is not None:
            beside.append(tasks.create_task(_prepare(settings, services, prepare)))
        await told_to_stop.wait()
        for service, task in running:
            service.stop()
            await task
        if server is not None and not services:
            await _let_others_leave(address)
        for task in beside:
            task.cancel()


async def _prepare(settings: Settings, services: Sequence[Service], prepare: Prepare) -> None:
    for service in services:
        await service.ready.wait()
    await prepare(settings, services)


async def _bus(settings: Settings, told_to_stop: asyncio.Event) -> Address:
    """Where the bus is; waits for it to be started. Raises NoBus."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + BUS_COMES_WITHIN_S
    while True:
        try:
            return bus_address(settings)
        except NoBus:
            if loop.time() > deadline or told_to_stop.is_set():
                raise
        await asyncio.sleep(LOOK_S)


async def _let_others_leave(address: Address) -> None:
    """The bus ends last: who uses it is told to end by the same signal, and still has something to
    send."""
    with suppress(TimeoutError, BusError):
        async with asyncio.timeout(LEAVE_WITHIN_S), ReconnectingConnection(address) as line:
            while b"\r\nconnected_clients:1\r\n" not in await line.call("INFO", "clients"):
                await asyncio.sleep(LOOK_S)
