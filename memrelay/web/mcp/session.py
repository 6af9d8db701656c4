"""What one client of the MCP server reaches: a toolset, and the pipelines in which it calls."""

from asyncio import Transport
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from memrelay.web.mcp.change_reader import ChangeReaders
from memrelay.web.mcp.tool import Target, ToolError

# The key of the session in the state of an ASGI scope.
SESSION = "session"
# The actor of changes by a client that has no key.
ACTOR = "mcp"
# The argument of tools, and the part of a URL, with the time zone of the user.
TIMEZONE = "timezone"
# Uids that an error lists.
MAX_LISTED = 20


async def no_pipelines() -> Sequence[str]:
    """Return no uids: the client reaches one fixed target."""
    return ()


@dataclass(frozen=True, slots=True)
class Session:
    """One connection over stdio, or one request over HTTP."""

    toolset: str
    # Returns the target of a uid. Its calls check that the client may access the pipeline.
    make_target: Callable[[str], Target]
    # The only pipeline, "" for a file; None if each call names its pipeline.
    uid: str | None = None
    # Returns the uids that the client sees, if calls name the pipeline.
    list_uids: Callable[[], Awaitable[Sequence[str]]] = no_pipelines
    # The readers of change feeds; None for a file.
    readers: ChangeReaders | None = None
    # The connection of the request, which a stream aborts if its client stops reading.
    transport: Transport | None = None
    # Time zone of the client's user, for calls that name none; "" for the pipeline's.
    timezone: str = ""

    @property
    def takes_pipeline(self) -> bool:
        """Whether the tools have the argument `pipeline`."""
        return self.uid is None

    @property
    def any_target(self) -> Target:
        """A target that only answers `may_call`, which is the same in every pipeline."""
        return self.make_target(self.uid or "")

    async def needs_pipeline(self) -> bool:
        """Return whether a call must name its pipeline, because there are several."""
        return self.takes_pipeline and len(await self.list_uids()) > 1

    async def find_target(self, given: str | None = None) -> Target:
        """Return the target of a call. `given` is its argument `pipeline`.

        Raises ToolError: it names none, and there is not exactly one to choose.
        """
        if self.uid is not None:
            return self.make_target(self.uid)
        if given:
            return self.make_target(given)
        uids = await self.list_uids()
        if len(uids) == 1:
            return self.make_target(uids[0])
        if not uids:
            raise ToolError("no pipeline that this key may use is active; deploy one first")
        more = f" and {len(uids) - MAX_LISTED} more" if len(uids) > MAX_LISTED else ""
        raise ToolError(
            f"set `pipeline` to one of these uids: {', '.join(uids[:MAX_LISTED])}{more}"
        )


def get_session(request: Any) -> Session:
    """Return the session of a request: that of the HTTP request, or that of the connection.

    `request` is the SDK's `ServerRequestContext`.
    """
    if request.request is None:
        session: Session = request.lifespan_context
    else:
        session = request.request.scope["state"][SESSION]
    return session
