"""The operations on rehearsals. The owner of the pipeline runs them beside its work."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, parse_ms
from memrelay.memory.errors import RecordNotFound, Refused
from memrelay.memory.field_descriptions import nested_input
from memrelay.memory.operations import Context, operation

# Messages of a call.
MAX_MESSAGES = 1000
MAX_ID = 64
ID = re.compile(r"[0-9a-f]{1,64}", re.ASCII)
CURSOR = re.compile(r"[0-9]{1,9}", re.ASCII)
Status = Literal["running", "done", "failed"]
Time = Annotated[str, Field(max_length=40)]
Name = Annotated[str, Field(max_length=256)]
Id = Annotated[str, Field(max_length=MAX_ID)]


@nested_input
@dataclass(frozen=True, slots=True)
class RehearsedMessage:
    """A message to rehearse."""

    text: Annotated[str, Field(max_length=1 << 20)]
    """The text."""
    swarm: Name = "chat"
    """The swarm that gets the message."""
    user: Name = "User"
    """The sender."""


@dataclass(frozen=True, slots=True)
class CreateRehearsal:
    """The bundle to try, and the inputs to run."""

    bundle: dict[str, Any]
    """The candidate: a bundle, as for a deployment."""
    since: Time = ""
    """The stores are as they were then, and the inputs that arrived at this time or later run: RFC
    3339 or Unix ms. By default, the time of the first kept input."""
    until: Time = ""
    """Only inputs that arrived before this time. By default, now."""
    messages: Annotated[list[RehearsedMessage] | None, Field(max_length=MAX_MESSAGES)] = None
    """Messages to run instead of kept inputs."""
    questions: Annotated[str, Field(max_length=1 << 20)] = ""
    """Golden questions (docs/golden-questions.md) as the text of a file. The stores of both bundles
    answer them at the end."""
    own_blocks: bool = False
    """Whether the bundles may use blocks of `blocks.paths`. They are Python and may do anything."""


@dataclass(frozen=True, slots=True)
class RehearsalId:
    """The rehearsal."""

    id: Id
    """The id of the rehearsal."""


@dataclass(frozen=True, slots=True)
class GetRehearsal:
    """The rehearsal, and the page of its differences."""

    id: Id
    """The id of the rehearsal."""
    cursor: Annotated[str, Field(max_length=9)] = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class ListRehearsals:
    """All rehearsals of the pipeline."""


@dataclass(frozen=True, slots=True)
class RehearsalView:
    """A rehearsal. Its result is kept for 7 days."""

    id: str
    status: Status
    reason: str
    """Why it failed; empty otherwise."""
    created_at: Moment
    equal: bool | None
    """Whether there is no difference; null while it runs, and if it failed."""
    counts: dict[str, int]
    """The number of differences of each sort."""


@dataclass(frozen=True, slots=True)
class RehearsalList:
    """The rehearsals of a pipeline, the latest first."""

    items: tuple[RehearsalView, ...]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A rehearsal with a page of its report."""

    id: str
    status: Status
    reason: str
    created_at: Moment
    equal: bool | None
    counts: dict[str, int]
    report: dict[str, Any] | None
    """The report (docs/rehearsal.md); null while it runs. Its lists have only the items of this
    page."""
    next_cursor: str | None


@operation("rehearsals.create", access="admin", mutates=False)
def create_rehearsal(tx: Transaction, request: CreateRehearsal, context: Context) -> RehearsalView:
    """Start a rehearsal: run inputs under another bundle on copies of the stores.

    Answers at once. A repeated call with the same input returns the rehearsal that runs. Raises
    Refused: for an invalid time, and while another rehearsal of the worker runs.
    """
    since_ms, until_ms = parse_time(request.since, "since"), parse_time(request.until, "until")
    view: RehearsalView = context.rehearsals().create(request, since_ms, until_ms)
    return view


@operation("rehearsals.get", access="admin", mutates=False)
def get_rehearsal(tx: Transaction, request: GetRehearsal, context: Context) -> Rehearsal:
    """Return a rehearsal with its report.

    Raises RecordNotFound, and Refused for an invalid cursor.
    """
    if request.cursor and not CURSOR.fullmatch(request.cursor):
        raise Refused("`cursor` is invalid; omit it to start at the first page")
    found: Rehearsal = context.rehearsals().get(
        check_id(request.id), int(request.cursor or 0), context.result_bytes
    )
    return found


@operation("rehearsals.list", access="admin", mutates=False)
def list_rehearsals(tx: Transaction, request: ListRehearsals, context: Context) -> RehearsalList:
    """List the rehearsals of a pipeline, the latest first."""
    return RehearsalList(tuple(context.rehearsals().list()))


@operation("rehearsals.delete", access="admin", mutates=False)
def delete_rehearsal(tx: Transaction, request: RehearsalId, context: Context) -> None:
    """Delete a rehearsal, and stop it if it runs. Raises RecordNotFound."""
    context.rehearsals().delete(check_id(request.id))


def check_id(ident: str) -> str:
    """Return the id of a rehearsal. Raises RecordNotFound: it cannot be one."""
    if not ID.fullmatch(ident):
        raise RecordNotFound(f"no rehearsal has the id {ident[:MAX_ID]!r}")
    return ident


def parse_time(text: str, name: str) -> int | None:
    """Return Unix ms, None for no time. Raises Refused."""
    if not text:
        return None
    time_ms = parse_ms(text)
    if time_ms is None:
        raise Refused(f"`{name}` must be a time such as 2026-11-28T09:00:00Z, or Unix ms")
    return time_ms
