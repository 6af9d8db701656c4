"""items.edit: replaces a part of a text in a shared store."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.errors import Denied, NotText, Refused, TextNotUnique
from memrelay.memory.items.access import Level, require
from memrelay.memory.items.entries import find_entry
from memrelay.memory.items.identity import Identity, StoreId
from memrelay.memory.items.item import (
    Address,
    ItemView,
    Key,
    Namespace,
    decode_state,
    encode,
    view_state,
)
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import State

# Characters of the text around the replaced part that the result shows on each side.
CONTEXT_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class EditItem(Identity):
    """The part of a text to replace."""

    store: StoreId
    """The store."""
    key: Key
    """The key."""
    old_str: Annotated[str, Field(min_length=1)]
    """The text to replace, which must occur exactly once. It has no special characters."""
    new_str: str
    """The new text."""
    namespace: Namespace = ""
    """The namespace within the store."""


@dataclass(frozen=True, slots=True)
class EditResult:
    """The entry after the edit, and the text around the change."""

    entry: ItemView
    """The entry."""
    before: str
    """Up to 40 characters before the replaced text."""
    after: str
    """Up to 40 characters after the replaced text."""


@operation("items.edit", access="write", mutates=True, home="stores")
def edit(tx: Transaction, change: EditItem, context: Context) -> EditResult:
    """Replace a part of the text that a read of the key returns. It must occur exactly once.

    The entry keeps its owner, flags and end. An internal entry does not exist for this operation.

    Raises Denied: when the agent has no readwrite access, the entry is encrypted, or the agent's
    own entry is internal and another agent has a visible one.
    Raises RecordNotFound: when there is no such entry.
    Raises NotText: when the value is not a text.
    Raises TextNotUnique: when the old text is missing or occurs several times.
    Raises ValueTooLarge: when the new text is too long.
    """
    return edit_item(tx, change, context)


def edit_item(tx: Transaction, change: EditItem, context: Context) -> EditResult:
    """Edit an entry inside an open transaction. Raises as `items.edit` does."""
    require(tx, change, change.store, Level.READWRITE)
    if not change.old_str:
        raise Refused("`old_str` is empty; name the text to replace")
    address = Address(change.store, change.namespace, change.key)
    place = find_entry(tx, address, change.agent)
    if place.whole.owner != change.agent and tx.items.own(address, change.agent) is not None:
        raise Denied(
            f"the agent's own entry {change.key!r} is internal, and the visible one belongs to "
            f"{place.whole.owner!r}; write the own entry with items.put"
        )
    text = _text_of(place.whole)
    count = text.count(change.old_str)
    if count != 1:
        raise TextNotUnique(_describe_count(change.key, count), count)
    before, _, after = text.partition(change.old_str)
    content, _ = encode(
        before + change.new_str + after, change.namespace, in_context=True, encrypted=False
    )
    state = place.whole
    if content != state.content:
        state = tx.items.change(place, state._replace(content=content))
    return EditResult(view_state(state), before[-CONTEXT_CHARACTERS:], after[:CONTEXT_CHARACTERS])


def type_name(value: Any) -> str:
    """Return the type of a JSON value: text, number, boolean, object (also for a list) or null."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
    return "object"


def _text_of(state: State) -> str:
    """Return the visible text of an entry. Raises NotText and Denied."""
    if state.encrypted:
        raise Denied(f"entry {state.key!r} is encrypted; write its new value with items.put")
    value = decode_state(state)
    if not isinstance(value, str):
        sort = type_name(value)
        raise NotText(
            f"entry {state.key!r} is {sort}, not text; write its new value with items.put", sort
        )
    return value


def _describe_count(key: str, count: int) -> str:
    if not count:
        return f"`old_str` does not occur in entry {key!r}; read it again and copy the text exactly"
    return (
        f"`old_str` occurs {count} times in entry {key!r}; add surrounding text so that it occurs "
        "once"
    )
