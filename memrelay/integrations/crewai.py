"""A storage backend for the memory of CrewAI. It needs the extra `crewai`."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memrelay.agents.calls import make_calls
from memrelay.installation import missing_framework

try:
    from crewai.memory.types import MemoryRecord, ScopeInfo
except ImportError as error:
    raise ImportError(missing_framework("CrewAI", "crewai")) from error

from memrelay.integrations.crewai_records import (
    Places,
    below,
    check_sizes,
    children,
    folder,
    make_items,
    make_record,
    matches,
    rank,
    read_vector,
    utc,
)
from memrelay.integrations.items import (
    KIND,
    Json,
    find_items,
    list_items,
    path,
    put_items,
    remove_items,
)

# Records that a search reads at once.
SOME = 100
Match = tuple[MemoryRecord, float]


class MemrelayStorage:
    """The `storage` of CrewAI's `Memory`: its records and their embeddings.

    - `call` is a store of `open_store`, or a client of `connect_sync`.
    - `user` is the person whose memory it is.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id.

    A search compares the query with all embeddings below its scope. Scores are cosines, 0 to 1.
    Raises TypeError for another `call`.
    """

    def __init__(
        self, call: Any, *, user: str = "", uid: str = "", store: str = "memories"
    ) -> None:
        self._calls = make_calls(call, uid=uid, store=store)
        self._at = Places(path("crewai", user), path("crewai vectors", user))

    def __deepcopy__(self, memo: object) -> "MemrelayStorage":
        """Return the storage itself: copies of a crew share its memory."""
        return self

    def save(self, records: list[MemoryRecord]) -> None:
        """Write records. A record replaces the one with its id.

        Raises EmbeddingDimensionMismatchError.
        """
        if embeddings := [record.embedding for record in records if record.embedding]:
            present = self._run(list_items({"scope": {"eq": self._at.vectors}}, limit=1))
            check_sizes([*map(read_vector, present), *embeddings])
        self._run(put_items([make_items(self._at, record) for record in records]))

    def update(self, record: MemoryRecord) -> None:
        """Replace the record with the same id. Without an embedding, it keeps the present one."""
        if not record.embedding and (present := self.get_record(record.id)) is not None:
            record = record.model_copy(update={"embedding": present.embedding})
        self.save([record])

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: Json | None = None,
        limit: int = 10,
        *,
        min_score: float = 0.0,
    ) -> list[Match]:
        """Return the records whose embeddings are closest, with their scores, the best first.

        Raises EmbeddingDimensionMismatchError.
        """
        found: list[Match] = []
        vectors = self._run(list_items(below(self._at.vectors, scope_prefix)))
        ranked = [one for one in rank(vectors, query_embedding) if one[1] >= min_score]
        for start in range(0, len(ranked), SOME):
            scores = dict(ranked[start : start + SOME])
            records = self._find([*scores])
            chosen = (one for one in records if matches(one, categories, metadata_filter))
            found += [(one, scores[one.id]) for one in chosen]
            if len(found) >= limit:
                break
        return found[:limit]

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: Json | None = None,
    ) -> int:
        """Delete the records that meet all criteria, and return their number."""
        records = self._list(scope_prefix) if record_ids is None else self._find(record_ids)
        chosen = [
            record.id
            for record in records
            if folder(record.scope).startswith(folder(scope_prefix or ""))
            and (older_than is None or utc(record.created_at) < utc(older_than))
            and matches(record, categories, metadata_filter)
        ]
        removed = int(self._run(remove_items(self._at.records, chosen)))
        self._run(remove_items(self._at.vectors, chosen))
        return removed

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return the record of an id, or None."""
        return next(iter(self._find([record_id])), None)

    def list_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        """Return the records of a scope and the scopes below it, the newest first."""
        records = self._list(scope_prefix)
        records.sort(key=lambda record: utc(record.created_at), reverse=True)
        return records[offset : offset + limit]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Return what a scope and the scopes below it contain."""
        records = self._list(scope)
        times = sorted((record.created_at for record in records), key=utc)
        return ScopeInfo(
            path=scope.rstrip("/") or "/",
            record_count=len(records),
            categories=sorted({one for record in records for one in record.categories}),
            oldest_record=times[0] if times else None,
            newest_record=times[-1] if times else None,
            child_scopes=children(scope, records),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the scopes immediately below a scope."""
        return children(parent, self._list(parent))

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return how many records of a scope each category has."""
        return dict(
            Counter(one for record in self._list(scope_prefix) for one in record.categories)
        )

    def count(self, scope_prefix: str | None = None) -> int:
        """Return the number of records of a scope and the scopes below it."""
        query = {"kind": KIND, "filter": below(self._at.records, scope_prefix), "limit": 1}
        return int(self._calls.run("records.list", query)["total"])

    def reset(self, scope_prefix: str | None = None) -> None:
        """Delete all records of a scope and the scopes below it."""
        for scope in self._at:
            items = self._run(list_items(below(scope, scope_prefix)))
            self._run(remove_items(scope, [item["key"] for item in items]))

    async def asave(self, *arguments: Any, **named: Any) -> None:
        """Save in a thread."""
        await asyncio.to_thread(self.save, *arguments, **named)

    async def asearch(self, *arguments: Any, **named: Any) -> list[Match]:
        """Search in a thread."""
        return await asyncio.to_thread(self.search, *arguments, **named)

    async def adelete(self, *arguments: Any, **named: Any) -> int:
        """Delete in a thread."""
        return await asyncio.to_thread(self.delete, *arguments, **named)

    def _find(self, ids: Sequence[str]) -> list[MemoryRecord]:
        """Return the records of ids, with their embeddings, in their order."""
        vectors = self._run(find_items(self._at.vectors, ids))
        embeddings = {one["key"]: read_vector(one).tolist() for one in vectors}
        items = self._run(find_items(self._at.records, ids))
        return [make_record(item, embeddings.get(item["key"])) for item in items]

    def _list(self, scope_prefix: str | None) -> list[MemoryRecord]:
        """Return the records of a scope and the scopes below it, without their embeddings."""
        items = self._run(list_items(below(self._at.records, scope_prefix)))
        return [make_record(item) for item in items]

    def _run(self, steps: Any) -> Any:
        return self._calls.run_steps(steps)
