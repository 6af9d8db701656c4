"""WebSockets that follow a swarm's log: from a cursor, then live."""

from collections.abc import Awaitable

from aiohttp import web

from memrelay.bus.streams.log import LogEntry, may_continue, parse_cursor, read_log
from memrelay.web.api.answers import refuse_unknown
from memrelay.web.server.errors import BadRequest
from memrelay.web.server.listener import Deliver, Place, Stream, Unfollow, serve_stream
from memrelay.web.server.services import Services, get_services

# Messages per read of the log.
PAGE_SIZE = 500
FIRST_PAGE_SIZE = 8
# Bytes per read. A listener that stops reading keeps one page in memory.
PAGE_BYTES = 256 << 10


async def follow_live(request: web.Request, uid: str, swarm: str) -> web.WebSocketResponse:
    """Send {cursor, mid, message} for each message after `after=CURSOR`, or from now on."""
    refuse_unknown(request, ("after",))
    after = request.query.get("after", "")
    try:
        reached = parse_cursor(after) if after else None
    except ValueError as error:
        raise BadRequest(f"`after`: {error}") from error
    return await serve_stream(request, _SwarmLog(get_services(request), uid, swarm), reached)


class _SwarmLog(Stream[LogEntry]):
    """The log of a swarm, for one listener."""

    def __init__(self, services: Services, uid: str, swarm: str) -> None:
        super().__init__(uid)
        self._services, self._swarm = services, swarm
        # Messages to request with the next read of the log.
        self._page_size = FIRST_PAGE_SIZE

    def follow(self, deliver: Deliver[LogEntry]) -> Awaitable[Unfollow]:
        return self._services.follower.follow(self.uid, self._swarm, deliver)

    async def read_page(self, after: Place) -> tuple[list[LogEntry], bool]:
        limit = self._page_size
        entries = await read_log(
            self._services.line,
            self.uid,
            self._swarm,
            after=self.to_cursor(after),
            limit=limit,
            most_bytes=PAGE_BYTES,
        )
        if entries:
            # Request about as many as fit into PAGE_BYTES, so that few are read in vain.
            fitting = 1 + PAGE_BYTES * len(entries) // sum(len(one.data) for one in entries)
            self._page_size = min(PAGE_SIZE, 2 * limit, fitting)
        return entries, may_continue(entries, limit, PAGE_BYTES)

    def to_frame(self, message: LogEntry) -> bytes:
        return b'{"cursor":"%s","mid":"%s","message":%s}' % (
            message.cursor.encode(),
            message.mid.encode(),
            message.data,
        )

    def to_cursor(self, place: Place) -> str:
        return "-".join(map(str, place))
