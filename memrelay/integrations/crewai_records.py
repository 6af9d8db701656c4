"""The records of `crewai`: an item for each memory, and one for its embedding."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
from crewai.memory.types import MemoryRecord
from numpy.typing import NDArray

from memrelay.integrations.items import Json, is_below, make_item, read_value

Vector = NDArray[np.float32]


class Places(NamedTuple):
    """The scopes in which the records and the embeddings of a user are items."""

    records: str
    vectors: str


def make_items(places: Places, record: MemoryRecord) -> list[Json]:
    """Return the items of a record and of its embedding."""
    value = record.model_dump(mode="json", exclude={"content"})
    at = folder(record.scope)
    items = [make_item((places.records, record.id), value, record.content, path=at)]
    if record.embedding:
        vector = b64encode(np.asarray(record.embedding, np.float32).tobytes()).decode()
        items.append(make_item((places.vectors, record.id), vector, path=at))
    return items


def check_sizes(vectors: Iterable[Sequence[float] | Vector]) -> None:
    """Raise EmbeddingDimensionMismatchError if embeddings have different sizes."""
    sizes = [len(vector) for vector in vectors]
    for size in sizes:
        if size != sizes[0]:
            raise EmbeddingDimensionMismatchError(sizes[0], size)


def rank(items: Sequence[Json], query: Sequence[float]) -> list[tuple[str, float]]:
    """Return the ids of embeddings with their cosines to a query, the best first.

    Raises EmbeddingDimensionMismatchError.
    """
    vectors = [read_vector(item) for item in items]
    check_sizes([*vectors, query])
    if not vectors:
        return []
    asked, matrix = np.asarray(query, np.float32), np.stack(vectors)
    lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(asked)
    scores = np.clip((matrix @ asked) / np.where(lengths > 0, lengths, 1), 0, 1).tolist()
    ids = [item["key"] for item in items]
    return sorted(zip(ids, scores, strict=True), key=lambda one: -one[1])


def below(scope: str, scope_prefix: str | None) -> Json:
    """Return the filter of the items of a CrewAI scope and the scopes below it."""
    at = folder(scope_prefix or "")
    where: Json = {"scope": {"eq": scope}}
    return where if at == "/" else where | {"data.value.path": is_below(at[:-1])}


def folder(scope: str) -> str:
    """Return a scope with `/` at both ends."""
    names = scope.strip("/")
    return f"/{names}/" if names else "/"


def children(parent: str, records: Sequence[MemoryRecord]) -> list[str]:
    """Return the scopes of records that are immediately below a scope."""
    at = folder(parent)
    rests = (folder(record.scope).removeprefix(at) for record in records)
    return sorted({at + rest.split("/", 1)[0] for rest in rests if rest})


def matches(record: MemoryRecord, categories: list[str] | None, metadata: Json | None) -> bool:
    """Return whether a record has one of the categories and all of the metadata."""
    has_category = not categories or any(one in record.categories for one in categories)
    pairs = (metadata or {}).items()
    return has_category and all(record.metadata.get(key) == value for key, value in pairs)


def make_record(item: Json, embedding: list[float] | None = None) -> MemoryRecord:
    """Return the record of an item, with its embedding if it is given."""
    rest = {"content": item["content"], "embedding": embedding}
    return MemoryRecord.model_validate(read_value(item) | rest)


def read_vector(item: Json) -> Vector:
    """Return an embedding."""
    return np.frombuffer(b64decode(read_value(item)), np.float32)


def utc(time: datetime) -> datetime:
    """Return a time with its zone: CrewAI has times of UTC without one."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
