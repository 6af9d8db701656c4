"""JSON shapes of Robutler's routes. The operations validate the input."""

from functools import partial
from typing import Annotated, Literal, NotRequired

from pydantic import Field, JsonValue
from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from memrelay.memory.engine.identity import ContextId, StoreId
from memrelay.web.models.shapes import array_of, derive_shape
from memrelay.web.openapi.shapes import exact

ENTRY_FIELDS = (
    "key value namespace storeId=store ownerId=owner inContext encrypted createdAt updatedAt "
    "expiresAt version"
)
derive = partial(derive_shape, __name__)
Namespace = str
Ttl = Annotated[float, Field(ge=0)]
Level = Literal["search", "read", "readwrite"]

Entry = derive(
    "Entry",
    "items.get",
    "An entry.",
    ENTRY_FIELDS,
)
PutEntry = derive(
    "PutEntry",
    "items.get",
    "An entry after a put. A hidden value is null.",
    ENTRY_FIELDS,
    success=bool,
    created=bool,
    won=bool,
)


@exact
class PutReference(TypedDict):
    """The result of a put, for a key without the scope read."""

    key: str
    storeId: str
    version: str
    success: bool
    created: bool
    won: bool


EntryPage = derive(
    "EntryPage",
    "items.list",
    "A page of entries. `keys` has each key once. `cursor` is null on the last page.",
    "entries keys cursor=next_cursor",
    entries=array_of(Entry),
)
Result = derive(
    "Result",
    "items.search/items/0",
    "A search hit.",
    "key value storeId=store ownerId=owner score",
)
Results = derive(
    "Results",
    "items.search",
    "Search hits, best first.",
    "results=items",
    results=array_of(Result),
)
AccessibleStore = derive(
    "AccessibleStore",
    "stores.list/stores/0",
    "A store that the agent may use, and why.",
    "storeId=store level source",
    level=Level,
    source=Literal["self", "grant", "chat", "user"],
)
Stores = derive(
    "Stores",
    "stores.list",
    "Stores that the agent may use, and a cursor if there are more.",
    "stores cursor?=next_cursor",
    stores=array_of(AccessibleStore),
    cursor=str,
)


@exact
class Done(TypedDict):
    """The change was made."""

    success: bool


@exact
class Shared(Done):
    """The grant is in force. `lowers` is true if the grantee had more access before."""

    lowers: NotRequired[Literal[True]]


@exact
class Deleted(TypedDict):
    """`deleted` is false if the agent had no such entry."""

    success: bool
    deleted: bool


@exact
class CallerFields(TypedDict):
    """The identity of the caller, in the body or the query."""

    agentId: NotRequired[StoreId]
    chatId: NotRequired[ContextId]
    userId: NotRequired[ContextId]


@exact
class NewEntry(CallerFields):
    """The body of a put. `ttl` is in seconds: 0 is without end, null keeps the end."""

    value: JsonValue
    ttl: NotRequired[Ttl | None]
    store: NotRequired[StoreId | None]
    namespace: NotRequired[Namespace | None]
    inContext: NotRequired[bool | None]
    encrypted: NotRequired[bool | None]
    ifAbsent: NotRequired[bool]


@exact
class NewShare(CallerFields):
    """The body of a share. The default level is read."""

    grantee: StoreId
    store: NotRequired[StoreId | None]
    level: NotRequired[Level | None]
    ttl: NotRequired[Ttl | None]


@exact
class NewKv(CallerFields):
    """The body of a write to /api/kv."""

    key: str
    value: JsonValue
    subjectType: NotRequired[str]
    subjectId: NotRequired[StoreId]
    namespace: NotRequired[Namespace | None]
    inContext: NotRequired[bool]


@exact
class KvFound(TypedDict):
    """The value of a key, null if there is none."""

    found: bool
    value: JsonValue


ToolAnswer = derive(
    "ToolAnswer", "memory_tool.read", "The answer of the memory tool.", "value is_error"
)
