"""Ends WebSockets and waiting requests soon after the end of their key or session."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from aiohttp import web

from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.web.auth.access import CALLER
from memrelay.web.auth.authorizer import Caller
from memrelay.web.server.errors import Unauthorized
from memrelay.web.services import SERVICES

# How often the credentials of open requests are checked.
CREDENTIAL_CHECK_S = 0.5
# Ends an open request for the given reason.
End = Callable[[str], None]
OPEN_REQUESTS = web.AppKey("open_requests", dict[End, Caller])


@contextmanager
def watch_access(request: web.Request, end: End) -> Iterator[None]:
    """Call `end` within a second if the caller loses access during the block.

    A caller without a key, such as a signed webhook, is not watched.
    """
    caller, watched = request.get(CALLER), request.config_dict[OPEN_REQUESTS]
    if caller is not None:
        watched[end] = caller
    try:
        yield
    finally:
        watched.pop(end, None)


@asynccontextmanager
async def end_when_revoked(request: web.Request) -> AsyncIterator[None]:
    """Cancel the block if the caller loses access. Raises Unauthorized."""
    reasons: list[str] = []
    try:
        async with asyncio.timeout(None) as access:

            def end(reason: str) -> None:
                reasons.append(reason)
                access.reschedule(0)

            with watch_access(request, end):
                yield
    except TimeoutError as error:
        if not access.expired():
            raise
        raise Unauthorized(f"{reasons[0]}; it may still run") from error


async def watch_callers(app: web.Application) -> AsyncIterator[None]:
    """Check the credentials of all open requests while the application runs."""
    watching = asyncio.create_task(_check_forever(app))
    yield
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


async def _check_forever(app: web.Application) -> None:
    while True:
        await asyncio.sleep(CREDENTIAL_CHECK_S)
        if not app[OPEN_REQUESTS]:
            continue
        # While the keys cannot be read, open requests stay open.
        with suppress(StoreBusy, StoreBroken):
            await _end_expired(app)


async def _end_expired(app: web.Application) -> None:
    authorizer = app[SERVICES].authorizer
    credentials, now_ms = await authorizer.get_credentials(refresh=True), authorizer.now_ms
    for end, caller in list(app[OPEN_REQUESTS].items()):
        if fault := credentials.find_fault(caller, now_ms):
            del app[OPEN_REQUESTS][end]
            end(fault)
