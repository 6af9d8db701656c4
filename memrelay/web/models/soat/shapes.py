"""JSON shapes of SOAT's routes. The operations validate the input."""

from functools import partial
from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, JsonValue, with_config
from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from memrelay.memory.models.named_memories.memories import EntryContent, Ident, MemoryName, Tag
from memrelay.memory.records.paging import MOST
from memrelay.web.models.shapes import array_of, derive_body, derive_shape
from memrelay.web.openapi.shapes import exact

derive = partial(derive_shape, __name__)
body = partial(derive_body, __name__)
TAGS = NotRequired[list[Tag] | None]
WRITE = "action score why"
ENTRY = (
    "id memory_id content source source_type=source tags metadata confirmations last_confirmed_at "
    "created_at updated_at"
)
# Memrelay has no such features, so that these fields are always null.
NULL_FIELDS = (
    "source_generation_id",
    "source_conversation_id",
    "invalidated_at",
    "superseded_by_entry_id",
)
LATER: dict[str, Any] = {
    "tags": list[str] | None,
    "metadata": dict[str, Any] | None,
    **dict.fromkeys(NULL_FIELDS, type(None)),
}

SoatMemory = derive(
    "SoatMemory",
    "memories.get",
    "A named memory.",
    "id project_id name description tags created_at updated_at",
)
SoatEntry = derive(
    "SoatEntry", "entries.get", "An entry, with Memrelay's additional fields.", ENTRY
)
SoatWritten = derive(
    "SoatWritten", "entries.create", "An entry with the result of the write.", f"{ENTRY} {WRITE}"
)
LaterEntry = derive(
    "LaterEntry",
    "entries.get",
    "An entry in the shape of later SOAT versions. Memrelay lacks the features of null fields.",
    ENTRY,
    **LATER,
)
LaterWritten = derive(
    "LaterWritten",
    "entries.create",
    "An entry with the result of the write.",
    f"{ENTRY} {WRITE}",
    **LATER,
)
LaterEntries = derive(
    "LaterEntries",
    "entries.list",
    "Up to `limit` entries of a memory after the first `offset`. `total` counts all of them.",
    "data=items total",
    data=array_of(LaterEntry),
    limit=int,
    offset=int,
)
SoatResult = derive(
    "SoatResult",
    "knowledge.search/results/0",
    "An entry that was found. It has scores only if there was a query.",
    "entry_id memory_id memory_name content source tags score? similarity_score?=score why? "
    "created_at updated_at",
    source_type=Literal["memory"],
    score=float,
    similarity_score=float,
    why=str,
)
SoatKnowledge = derive(
    "SoatKnowledge",
    "knowledge.search",
    "The results of a search.",
    "results degraded reason?",
    results=array_of(SoatResult),
    reason=str,
)
NewSoatMemory = body(
    "NewSoatMemory",
    "memories.create",
    "A new memory.",
    "name description??",
    tags=TAGS,
    # Optional for a key that is limited to one project.
    project_id=NotRequired[str | None],
)
SoatMemoryChange = body(
    "SoatMemoryChange",
    "memories.update",
    "Changes of a memory. null clears a field.",
    "description??",
    name=NotRequired[MemoryName],
    tags=TAGS,
)
NewSoatEntry = body(
    "NewSoatEntry",
    "entries.create",
    "A new entry.",
    # `source_type` is the name of `source` in later versions.
    "content source?? source_type??=source duplicate_threshold?? update_threshold?? mode??",
    tags=TAGS,
)


@exact
class SoatEntryChange(TypedDict):
    """Changes of an entry. null clears a field."""

    content: NotRequired[EntryContent]
    tags: NotRequired[list[Tag] | None]


NewLaterEntry = body(
    "NewLaterEntry",
    "entries.create",
    "A new entry.",
    # `source` is the name of `source_type` in earlier versions.
    "content source_type??=source source?? duplicate_threshold?? mode??",
    tags=TAGS,
    memory_id=Annotated[str, Field(min_length=1)],
    metadata=NotRequired[dict[str, Any] | None],
)


@exact
class LaterEntryChange(SoatEntryChange):
    """Changes of an entry. null clears a field."""

    metadata: NotRequired[dict[str, Any] | None]


# A search needs at least one of these.
_CRITERIA: list[JsonValue] = [
    {"required": ["query"], "properties": {"query": {"type": "string", "pattern": r"\S"}}}
]
for _name in ("memory_ids", "memory_tags", "document_paths", "document_ids"):
    _filled: JsonValue = {"type": ["string", "array"], "minLength": 1, "minItems": 1}
    _CRITERIA.append({"required": [_name], "properties": {_name: _filled}})


@with_config(ConfigDict(extra="forbid", json_schema_extra={"anyOf": _CRITERIA}))
class SoatQuestion(TypedDict):
    """A search with at least a query or a list. Memrelay stores no documents."""

    project_id: NotRequired[str | None]
    query: NotRequired[str | None]
    min_score: NotRequired[float | None]
    limit: NotRequired[Annotated[int, Field(ge=0, le=MOST)] | None]
    memory_ids: NotRequired[list[Ident] | Ident | None]
    memory_tags: NotRequired[list[Tag] | Tag | None]
    document_paths: NotRequired[list[str] | str | None]
    document_ids: NotRequired[list[str] | str | None]
