"""Lines of an export about rows of tables that hold no records: grants, contexts, settings,
tallies and checkpoints."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from memrelay.memory.engine.timestamps import LAST_MS

# The placeholder of the uid may be longer than the uid.
Id = Annotated[str, Meta(min_length=1, max_length=128)]
# Unix ms, in the range that the API can return.
Time = Annotated[int, Meta(ge=0, le=LAST_MS)]
Flag = Annotated[int, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, le=2**62)]


class ExportedGrant(Struct, frozen=True, forbid_unknown_fields=True):
    """A level of access to a store that an agent has."""

    store: Id
    grantee: Id
    level: Literal["search", "read", "readwrite"]
    granted_by: Id
    expires_at: Time | None
    created_at: Time


class ExportedContext(Struct, frozen=True, forbid_unknown_fields=True):
    """An agent that takes part in a chat, or works for a user."""

    id: Id
    sort: Literal["chat", "user"]
    agent: Id
    expires_at: Time | None


class ExportedSettings(Struct, frozen=True, forbid_unknown_fields=True, rename={"own": "self"}):
    """What an agent may use."""

    agent: Id
    enabled: Flag
    own: Flag
    chat: Flag
    user: Flag


class ExportedTally(Struct, frozen=True, forbid_unknown_fields=True):
    """The counters of a record."""

    guid: Id
    uses: Count
    used_at: Time | None
    seen_at: Time | None
    good: Count
    bad: Count
    timed: Count
    total_ms: Count


class ExportedCheckpoint(Struct, frozen=True, forbid_unknown_fields=True):
    """A checkpoint of a thread. Bytes are in base64."""

    agent: str
    thread: Id
    ns: str
    id: str
    parent: str
    type: str
    checkpoint: bytes
    metadata: str
    run: str
    created_at: Time
    channels: str
    numbers: Annotated[str, Meta(pattern=r"^(\d+(-\d+)?(,\d+(-\d+)?)*)?$")]


class ExportedCheckpointValue(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the checkpoints of a thread."""

    agent: str
    thread: Id
    n: Count
    value: bytes


class ExportedCheckpointWrite(Struct, frozen=True, forbid_unknown_fields=True):
    """A write that follows a checkpoint."""

    agent: str
    thread: Id
    ns: str
    id: str
    task: str
    idx: int
    path: str
    channel: str
    type: str
    value: bytes


class ExportedPair(Struct, frozen=True, forbid_unknown_fields=True):
    """A pair of a key-value store. `value` is JSON."""

    instance: Id
    namespace: str
    key: str
    value: str
    updated_at: Time


class ExportedEvent(Struct, frozen=True, forbid_unknown_fields=True):
    """An event of a log. `payload` and `metadata` are JSON."""

    id: Id
    instance: Id
    stream: str
    sequence: Count
    type: str
    payload: str
    metadata: str
    at: Time


class ExportedEdge(Struct, frozen=True, forbid_unknown_fields=True):
    """An edge of a graph."""

    id: str
    instance: Id
    kind: str
    from_node: str
    to_node: str
    created_at: Time


class ExportedView(Struct, frozen=True, forbid_unknown_fields=True):
    """A view of a graph."""

    id: str
    template: str
    instance: Id
    created_at: Time


ExportedRow = (
    ExportedGrant
    | ExportedContext
    | ExportedSettings
    | ExportedTally
    | ExportedCheckpoint
    | ExportedCheckpointValue
    | ExportedCheckpointWrite
    | ExportedPair
    | ExportedEvent
    | ExportedEdge
    | ExportedView
)


class RowSort(NamedTuple):
    """A table whose rows are lines of an export. The fields of `struct` are its columns."""

    table: str
    struct: Callable[..., Any]
    columns: tuple[str, ...]
    # The columns of its primary key, or of another unique key.
    key: tuple[str, ...]
    # The fields with ids that may contain the uid of the pipeline.
    ids: tuple[str, ...]
    # The columns that order the lines, by default the key.
    order: tuple[str, ...] = ()

    @property
    def select(self) -> str:
        """Return the SQL of all rows."""
        order = ", ".join(self.order or self.key)
        return f"SELECT {', '.join(self.columns)} FROM {self.table} ORDER BY {order}"

    @property
    def select_one(self) -> str:
        """Return the SQL of the row with a key."""
        condition = " AND ".join(f"{name} = ?" for name in self.key)
        return f"SELECT {', '.join(self.columns)} FROM {self.table} WHERE {condition}"

    @property
    def insert(self) -> str:
        """Return the SQL that inserts a row, or replaces the row with its key."""
        marks = ", ".join("?" * len(self.columns))
        return f"INSERT OR REPLACE INTO {self.table}({', '.join(self.columns)}) VALUES ({marks})"

    def key_of(self, row: ExportedRow) -> tuple[Any, ...]:
        """Return the key of a row."""
        return tuple(getattr(row, name) for name in self.key)

    def name(self, row: ExportedRow) -> str:
        """Return the name of a row in messages."""
        return " of ".join(map(repr, reversed(self.key_of(row))))


# By the name of the line's field.
ROW_SORTS = {
    "grant": RowSort(
        "grants",
        ExportedGrant,
        ExportedGrant.__struct_encode_fields__,
        ("store", "grantee"),
        ("store", "grantee", "granted_by"),
    ),
    "context": RowSort(
        "contexts",
        ExportedContext,
        ExportedContext.__struct_encode_fields__,
        ("id", "agent"),
        ("id", "agent"),
    ),
    "agent_settings": RowSort(
        "agent_settings",
        ExportedSettings,
        ExportedSettings.__struct_encode_fields__,
        ("agent",),
        ("agent",),
    ),
    "tally": RowSort(
        "tallies", ExportedTally, ExportedTally.__struct_encode_fields__, ("guid",), ()
    ),
    "checkpoint": RowSort(
        "checkpoints",
        ExportedCheckpoint,
        ExportedCheckpoint.__struct_encode_fields__,
        ("agent", "thread", "ns", "id"),
        ("thread",),
    ),
    "checkpoint_value": RowSort(
        "checkpoint_values",
        ExportedCheckpointValue,
        ExportedCheckpointValue.__struct_encode_fields__,
        ("agent", "thread", "n"),
        ("thread",),
    ),
    "checkpoint_write": RowSort(
        "checkpoint_writes",
        ExportedCheckpointWrite,
        ExportedCheckpointWrite.__struct_encode_fields__,
        ("agent", "thread", "ns", "id", "task", "idx"),
        ("thread",),
    ),
    "kv": RowSort(
        "kv",
        ExportedPair,
        ExportedPair.__struct_encode_fields__,
        ("instance", "namespace", "key"),
        (),
    ),
    # An import adds events and edges in the order of the lines.
    "event": RowSort(
        "events",
        ExportedEvent,
        ExportedEvent.__struct_encode_fields__,
        ("instance", "stream", "sequence"),
        (),
        ("row",),
    ),
    "edge": RowSort(
        "edges",
        ExportedEdge,
        ExportedEdge.__struct_encode_fields__,
        ("instance", "id"),
        (),
        ("row",),
    ),
    "view": RowSort("views", ExportedView, ExportedView.__struct_encode_fields__, ("id",), ()),
}
