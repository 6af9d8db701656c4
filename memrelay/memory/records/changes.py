"""Changes of a store in order, from its change feed."""

from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import Field

from memrelay.memory.engine.features import FEED
from memrelay.memory.engine.feed import TYPES, Change
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import Refused
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.paging import Limit
from memrelay.memory.validation import find_closest

# Changes that one call reads, at most. It may find fewer of the given types among them.
MAX_READ = 10_000
Type = Annotated[str, Field(min_length=1, max_length=64)]


@dataclass(frozen=True, slots=True)
class ListChanges:
    """The changes to list."""

    after: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The `next` of the previous call; 0 for the oldest change that is kept."""
    types: Annotated[tuple[Type, ...], Field(max_length=64)] = ()
    """Only changes of these types, such as `record.created`; by default all. Others are refused."""
    limit: Limit = 100
    """The maximum number of changes."""


@dataclass(frozen=True, slots=True)
class ChangeView:
    """A committed change. It has ids and no values: read what changed with another operation."""

    n: int
    """Its number. A later change has a higher one."""
    at: Moment
    type: str
    """The kind of change: `record.created`, `record.updated`, `record.deleted`, `record.expired`,
    the same for other nouns, or `record.erased`, which does not name the records."""
    subject: str
    """The id of what changed: for records their guid, for named memories their id."""
    actor: str
    """The caller, or the agent whose block made the change; empty for the worker itself."""
    data: dict[str, Any] | None
    """Further ids, and `event` if it names the change more exactly; null for none."""


@dataclass(frozen=True, slots=True)
class ChangeList:
    """The changes, the oldest first."""

    items: tuple[ChangeView, ...]
    next: int
    """The `after` of the next call, also if there are no items."""
    last: int
    """The number of the newest change. There is more to read while `next` is lower."""
    oldest: int
    """The number of the oldest change that is kept; 0 for none. Changes up to `after` that are not
    yet read have expired if it is higher than `after` + 1."""
    enabled: bool
    """Whether the store has a feed: the built-in stores do, others by `changes` in `stores` of the
    bundle.
    """


@operation("changes.list", access="read", mutates=False, shows_ids_only=True)
def list_changes(tx: Transaction, request: ListChanges, context: Context) -> ChangeList:
    """List the changes of a store in order. A consumer continues from its own cursor.

    Raises Refused: when `after` is higher than the last change, as after a restored backup, or
    when a type is unknown.
    """
    _refuse_unknown(request.types)
    feed = tx.feed
    is_filtered = bool(request.types)
    changes = feed.after(request.after, MAX_READ if is_filtered else request.limit)
    last = feed.last
    if request.after > last:
        raise Refused(
            f"the last change of {tx.memory_id} is {last}, so the store was replaced after "
            f"{request.after} was read; read the records again and continue with `after`: {last}"
        )
    taken, cursor = _take(changes, request)
    oldest = feed.oldest
    first = 0 if oldest is None else oldest[0]
    return ChangeList(tuple(map(_view, taken)), cursor, last, first, tx.has_feature(FEED))


def _refuse_unknown(types: tuple[str, ...]) -> None:
    for name in types:
        if name not in TYPES:
            near = find_closest(name, TYPES)
            hint = f"did you mean {near!r}?" if near else f"known: {', '.join(TYPES)}"
            raise Refused(f"no change has the type {name!r} ({hint})")


def _take(changes: list[Change], request: ListChanges) -> tuple[list[Change], int]:
    """Return the changes of the page, and the number of the last one that was read."""
    if not request.types:
        return changes, changes[-1].n if changes else request.after
    matching = [change for change in changes if change.type in request.types]
    if len(matching) >= request.limit:
        taken = matching[: request.limit]
        return taken, taken[-1].n
    return matching, changes[-1].n if changes else request.after


def _view(change: Change) -> ChangeView:
    data = None if change.data is None else orjson.loads(change.data)
    return ChangeView(
        change.n, format_time(change.at), change.type, change.subject, change.actor, data
    )
