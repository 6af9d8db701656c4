"""The memory service of `google_adk`: events and memories of users, found by their texts."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai.types import Content

from memrelay.agents.calls import make_calls
from memrelay.integrations.items import Json, is_below, path

KIND = "memory"
# Memories of one call.
MOST = 500


class MemrelayMemoryService(BaseMemoryService):
    """Events of sessions, and explicit memories of users, in a store of Memrelay.

    - `call` executes operations: a store from `open_store`, or a client from `connect` or
      `connect_sync`.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id; an
      embedded store ignores it.
    - `limit` is the number of memories that a search finds, 1 to 1,000.

    Memories are records of kind `memory`. Their owner is the user.
    """

    def __init__(self, call: Any, *, uid: str = "", store: str = "", limit: int = 10) -> None:
        self._calls = make_calls(call, uid=uid, store=store)
        self._limit = limit

    async def add_session_to_memory(self, session: Session) -> None:
        """Keep the events of a session, as `add_events_to_memory` does."""
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Keep events that have texts, without their files. Events kept or deleted are skipped."""
        entries = [_make_entry(event, custom_metadata or {}) for event in events]
        texts = [entry for entry in entries if entry is not None]
        await self._add((app_name, user_id, session_id or ""), texts)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Keep memories. A memory whose id was kept or deleted is skipped."""
        metadata = dict(custom_metadata or {})
        entries = [
            one.model_copy(
                update={
                    "id": one.id or str(uuid4()),
                    "custom_metadata": metadata | one.custom_metadata,
                }
            )
            for one in memories
        ]
        await self._add((app_name, user_id, ""), entries)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return the memories of a user in an app that fit to a query, the best first."""
        if not query.strip():
            return SearchMemoryResponse()
        search = {
            "query": query,
            "plain": True,
            "mode": "hybrid",
            "kind": KIND,
            "limit": self._limit,
            "filter": {"thread": is_below(path("memory", app_name, user_id))},
        }
        found = await self._calls.arun("records.search", search)
        return SearchMemoryResponse(memories=[_read_entry(hit["record"]) for hit in found["items"]])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete a memory. `records.restore` can undo it."""
        where = {
            "thread": is_below(path("memory", app_name, user_id)),
            "key": {"eq": memory_id or ""},
        }
        found = await self._calls.arun("records.list", {"kind": KIND, "filter": where})
        for record in found["items"]:
            await self._calls.arun("records.delete", {"guid": record["guid"]})

    async def _add(self, address: tuple[str, str, str], entries: Sequence[MemoryEntry]) -> None:
        app, user, _ = address
        thread = path("memory", *address)
        for start in range(0, len(entries), MOST):
            some = {entry.id or "": entry for entry in entries[start : start + MOST]}
            known = await self._known(thread, list(some))
            messages = [_message(entry) for id_, entry in some.items() if id_ not in known]
            if messages:
                added = {"thread": thread, "user": user, "agent": app, "kind": KIND}
                await self._calls.arun("turns.add", {**added, "messages": messages})

    async def _known(self, thread: str, ids: Sequence[str]) -> set[str]:
        """Return the ids that were kept in a thread, also those of deleted memories."""
        known: set[str] = set()
        where = {"thread": {"eq": thread}, "key": {"in": [*ids]}}
        for deleted in (False, True):
            cursor: str | None = ""
            while cursor is not None:
                query = {"kind": KIND, "filter": where, "deleted": deleted, "cursor": cursor}
                page = await self._calls.arun("records.list", {**query, "limit": MOST})
                known |= {record["key"] for record in page["items"]}
                cursor = page["next_cursor"]
        return known


def _make_entry(event: Event, metadata: Mapping[str, object]) -> MemoryEntry | None:
    """Return the memory of an event, or None if it has no text."""
    parts = [part for part in (event.content and event.content.parts) or () if not part.inline_data]
    if not any(part.text for part in parts):
        return None
    return MemoryEntry(
        id=event.id,
        content=Content(role=event.content.role, parts=parts),
        author=event.author,
        timestamp=datetime.fromtimestamp(event.timestamp, UTC).isoformat(),
        custom_metadata=dict(metadata),
    )


def _message(entry: MemoryEntry) -> Json:
    """Return a memory as a message of `turns.add`."""
    parts = entry.content.parts or ()
    return {
        "role": entry.content.role or "user",
        "name": entry.author or "",
        "content": "\n".join(part.text for part in parts if part.text),
        "id": entry.id,
        "item": entry.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def _read_entry(record: Json) -> MemoryEntry:
    """Return the memory of a record. Raises ValueError."""
    item = record["data"].get("item") or json.loads(record["content"])
    return MemoryEntry.model_validate(item)
