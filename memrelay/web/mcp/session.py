"""What one client of the MCP server reaches: a toolset, and the pipelines in which it calls."""

from asyncio import Transport
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from memrelay.web.mcp.change_reader import ChangeReaders
from memrelay.web.mcp.tool import Target, ToolError

# The key of the session in the state of an ASGI scope.
SESSION = "session"
# The actor of changes by a client that has no key.
ACTOR = "mcp"
# The argument of tools, and the part of a URL, with the time zone of the user.
TIMEZONE = "timezone"
# Pipelines that a text lists, and characters of the name of each.
MAX_LISTED, MAX_NAME = 20, 40


class PipelineName(NamedTuple):
    """A pipeline that a client may use."""

    uid: str
    name: str


async def no_pipelines(*, refresh: bool = False) -> Sequence[PipelineName]:
    """Return no pipelines: the client reaches one fixed target."""
    return ()


class ListPipelines(Protocol):
    """Returns the pipelines that a client may use. `refresh`: also those of the last second."""

    def __call__(self, *, refresh: bool = False) -> Awaitable[Sequence[PipelineName]]: ...


def name_pipelines(pipelines: Sequence[PipelineName]) -> str:
    """Return uids with names as one text, with a count of those that are left out."""
    listed = [f"{one.uid} ({one.name[:MAX_NAME]})" for one in pipelines[:MAX_LISTED]]
    more = len(pipelines) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more else "")


@dataclass(frozen=True, slots=True)
class Session:
    """One connection over stdio, or one request over HTTP."""

    toolset: str
    # Returns the target of a uid. Its calls check that the client may access the pipeline.
    make_target: Callable[[str], Target]
    # The only pipeline, "" for a file; None if each call names its pipeline.
    uid: str | None = None
    # Returns the pipelines that the client sees, if calls name the pipeline.
    list_pipelines: ListPipelines = no_pipelines
    # The readers of change feeds; None for a file.
    readers: ChangeReaders | None = None
    # The connection of the request, which a stream aborts if its client stops reading.
    transport: Transport | None = None
    # Time zone of the client's user, for calls that name none; "" for the pipeline's.
    timezone: str = ""
    # With an access token of OAuth: the scopes that the client may ask its user for.
    more_scopes: frozenset[str] = frozenset()
    # Those of them that a call lacked.
    lacked: set[str] = field(default_factory=set)

    @property
    def takes_pipeline(self) -> bool:
        """Whether the tools have the argument `pipeline`."""
        return self.uid is None

    @property
    def any_target(self) -> Target:
        """A target that only answers `may_call`, which is the same in every pipeline."""
        return self.make_target(self.uid or "")

    def note_lacking(self, scopes: Sequence[str]) -> None:
        """Note that a call lacked one of several scopes."""
        self.lacked.update([one for one in scopes if one in self.more_scopes][:1])

    async def find_target(self, given: str | None = None) -> Target:
        """Return the target of a call. `given` is its argument `pipeline`: a uid, or a name that
        one pipeline has.

        Raises ToolError: it names none, and there is not exactly one to choose.
        """
        if self.uid is not None:
            return self.make_target(self.uid)
        given = given or None
        pipelines = await self.list_pipelines()
        found = _choose(pipelines, given)
        if given and not found:
            # It may have been deployed a moment ago.
            pipelines = await self.list_pipelines(refresh=True)
            found = _choose(pipelines, given)
        if len(found) == 1:
            return self.make_target(found[0])
        if not pipelines:
            raise ToolError("no pipeline that this key may use is active; deploy one first")
        problem = "" if given is None else f"{len(found) or 'no'} pipelines are {given[:100]!r}; "
        raise ToolError(
            f"{problem}set `pipeline` to one of these uids: {name_pipelines(pipelines)}"
        )


def _choose(pipelines: Sequence[PipelineName], given: str | None) -> list[str]:
    """Return the uids that a uid or a name means; all if there is neither."""
    return [one.uid for one in pipelines if given is None or given == one.uid] or [
        one.uid for one in pipelines if given == one.name
    ]


def get_session(request: Any) -> Session:
    """Return the session of a request: that of the HTTP request, or that of the connection.

    `request` is the SDK's `ServerRequestContext`.
    """
    if request.request is None:
        session: Session = request.lifespan_context
    else:
        session = request.request.scope["state"][SESSION]
    return session
