"""recipes.changes: lists the changes of recipes and their sources as events with the objects."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.errors import Refused
from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.events import event_of
from memrelay.memory.records.data import LARGEST
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.timestamps import Moment, format_time

# Changes that one call reads, at most.
MAX_READ = 1000
# Bytes of an event besides its data.
EVENT_BYTES = 200


@dataclass(frozen=True, slots=True)
class ListRecipeChanges:
    """The changes to list."""

    after: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The `next` of the previous call; 0 for the oldest change that is kept."""
    limit: Annotated[int, Field(ge=1, le=MAX_READ)] = 100
    """The maximum number of events."""


@dataclass(frozen=True, slots=True)
class RecipeChange:
    """A change as an event."""

    n: int
    """Its number. A later change has a higher one."""
    event: str
    """Its name, such as `persistentMemory:created`."""
    data: dict[str, Any]
    """The object as it is now, or ids if it no longer exists or is too large."""
    timestamp: Moment


@dataclass(frozen=True, slots=True)
class RecipeChanges:
    """The changes, the oldest first."""

    items: tuple[RecipeChange, ...]
    next: int
    """The `after` of the next call, also if there are no items."""
    last: int
    """The number of the newest change. There is more to read while `next` is lower."""


@operation("recipes.changes", access="read", mutates=False, home="recipes")
def list_recipe_changes(
    tx: Transaction, wanted: ListRecipeChanges, context: Context
) -> RecipeChanges:
    """List changes of recipes and of what they read in order, with the changed objects.

    Raises Refused: when `after` is higher than the last change, as after a restored backup.
    """
    changes, last = tx.feed.after(wanted.after, MAX_READ), tx.feed.last
    if wanted.after > last:
        raise Refused(
            f"the last change is {last}, so the store was replaced after {wanted.after} was read; "
            f"read the objects again and continue with `after`: {last}"
        )
    items, reached, left = list[RecipeChange](), wanted.after, context.result_bytes
    for change in changes:
        found = event_of(tx, change, context.result_bytes // 2)
        if found is not None:
            (name, data), size = found
            left -= size + EVENT_BYTES
            if items and left < 0:
                break
            items.append(RecipeChange(change.n, name, data, format_time(change.at)))
        reached = change.n
        if len(items) == wanted.limit:
            break
    return RecipeChanges(tuple(items), reached, last)
