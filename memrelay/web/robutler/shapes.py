"""JSON shapes of Robutler's routes, for the OpenAPI document. The operations validate the input."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field, JsonValue
from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from memrelay.memory.engine.identity import ContextId, StoreId
from memrelay.web.openapi.shapes import exact

Namespace = str
Ttl = Annotated[float, Field(ge=0)]


@exact
class Entry(TypedDict):
    """An entry."""

    key: str
    value: JsonValue
    namespace: str
    storeId: str
    ownerId: str
    inContext: bool
    encrypted: bool
    createdAt: str
    updatedAt: str
    expiresAt: str | None
    version: str


@exact
class PutEntry(Entry):
    """An entry after a put. A hidden value is null."""

    success: bool
    created: bool
    won: bool


@exact
class PutReference(TypedDict):
    """The result of a put, for a key without the scope read."""

    key: str
    storeId: str
    version: str
    success: bool
    created: bool
    won: bool


@exact
class EntryPage(TypedDict):
    """A page of entries. `keys` has each key once. `cursor` is null on the last page."""

    entries: list[Entry]
    keys: list[str]
    cursor: str | None


@exact
class Result(TypedDict):
    """A search hit."""

    key: str
    value: JsonValue
    storeId: str
    ownerId: str
    score: float


@exact
class Results(TypedDict):
    """Search hits, best first."""

    results: list[Result]


@exact
class AccessibleStore(TypedDict):
    """A store that the agent may use, and why."""

    storeId: str
    level: Literal["search", "read", "readwrite"]
    source: Literal["self", "grant", "chat", "user"]


@exact
class Stores(TypedDict):
    """Stores that the agent may use, and a cursor if there are more."""

    stores: list[AccessibleStore]
    cursor: NotRequired[str]


@exact
class Done(TypedDict):
    """The change was made."""

    success: bool


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
    level: NotRequired[Literal["search", "read", "readwrite"] | None]
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


@exact
class ToolAnswer(TypedDict):
    """The answer of the memory tool."""

    value: JsonValue
    is_error: bool
