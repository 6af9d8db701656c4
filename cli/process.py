"""A process that serves: the embedded server where none is configured, and a worker, until a signal ends both in order."""
import asyncio
import signal
from collections.abc import Awaitable, Callable

from bus.embedded.launcher import EmbeddedServer
from cli.composition import bus_address, make_worker, run, settled
from cli.settings import Settings

Prepare = Callable[[Settings], Awaitable[None]]


def serve(prepare: Prepare | None = None) -> None:
    """Serves until SIGTERM or SIGINT. `prepare` runs as soon as the worker is ready."""
    server = settled(_start_server)
    try:
        run(lambda settings: _serve(settings, server, prepare))
    finally:
        if server is not None:
            server.stop()


def _start_server(settings: Settings) -> EmbeddedServer | None:
    """Our own server, from the main thread, before anything else runs; None where another is configured."""
    if settings.bus.url:
        return None
    server = EmbeddedServer(settings.bus.data, str(settings.bus.server) if settings.bus.server else None)
    server.start()
    return server


async def _serve(settings: Settings, server: EmbeddedServer | None, prepare: Prepare | None) -> None:
    worker = make_worker(settings, bus_address(settings))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, worker.stop)
    async with asyncio.TaskGroup() as tasks:
        beside = [tasks.create_task(server.supervise())] if server else []
        if prepare is not None:
            beside.append(tasks.create_task(_prepare(worker.ready, settings, prepare)))
        await worker.run()
        for task in beside:
            task.cancel()


async def _prepare(ready: asyncio.Event, settings: Settings, prepare: Prepare) -> None:
    await ready.wait()
    await prepare(settings)
