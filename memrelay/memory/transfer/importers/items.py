"""The output of a source: items to import, and faults of items that are left out.

Times are Unix ms; None means that the source has no time. A source fills `id` with the identity of
the item in the other system. If that has none, the identifying fields replace it.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

EMPTY: Mapping[str, Any] = {}


class LeftOut(ValueError):
    """The item cannot be imported. The text of the error is the reason for the report."""


class Fault(Struct, frozen=True):
    """An item that is left out, or a part of one."""

    # Place in the file that a reader finds, for example `line 17` or `conversations[3].mapping`.
    position: str
    # A short sentence without a full stop: `the text is empty`.
    reason: str


class Item(Struct, frozen=True, kw_only=True):
    """Fields that all items have."""

    position: str
    id: str
    created_at: int | None = None


class Texted(Item, frozen=True, kw_only=True):
    """An item that becomes a record."""

    text: str
    updated_at: int | None = None
    expires_at: int | None = None
    # The time at which the other system deleted it: it becomes a deleted record.
    deleted_at: int | None = None
    owner: str | None = None
    source: str = ""
    tags: tuple[str, ...] = ()
    # A JSON object of at most 64 KiB.
    data: Mapping[str, Any] = EMPTY
    in_context: bool = False


class Fact(Texted, frozen=True, kw_only=True):
    """An entry of a named memory."""

    # The name of the memory, for example `mem0/ada`.
    memory: str
    thread: str | None = None


class Turn(Texted, frozen=True, kw_only=True):
    """A turn of a conversation. `source` is the role of its speaker."""

    thread: str
    seq: int


class Plain(Texted, frozen=True, kw_only=True):
    """A plain record."""

    kind: str = "observation"
    key: str | None = None
    thread: str | None = None


class Node(Item, frozen=True, kw_only=True):
    """A node of the knowledge graph."""

    name: str
    kind: str
    observations: tuple[str, ...] = ()


class Edge(Item, frozen=True, kw_only=True):
    """An edge of the knowledge graph, between the names of two nodes."""

    from_name: str
    to_name: str
    kind: str


AnyItem = Fact | Turn | Plain | Node | Edge
Found = AnyItem | Fault
