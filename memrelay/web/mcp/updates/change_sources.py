"""The change feeds of a pipeline, and the resources that a change concerns."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from memrelay.memory.engine.feed import ERASED
from memrelay.memory.engine.memory_id import home_of
from memrelay.web.mcp.resources.uris import ResourceKind, ResourceUri

Json = dict[str, Any]
# The instance of the toolset `graph`.
GRAPH_INSTANCE = "mcp"
# Changed entries whose memory is looked up. After more of them, every memory counts as changed.
MAX_LOOKED_UP = 20
GRAPH = ResourceUri("graph", "", "")


class Changes(NamedTuple):
    """What changed. `is_gap`: anything may have changed."""

    uris: frozenset[ResourceUri] = frozenset()
    is_list_changed: bool = False
    is_gap: bool = False


class CallOperation(Protocol):
    """Calls a reading operation."""

    async def __call__(self, operation: str, given: Json, store: str = "") -> Any:
        """Return the output. Raises BusError and FeedError."""


FindChanges = Callable[[CallOperation, str, Sequence[Json], set[ResourceUri]], Awaitable[Changes]]


@dataclass(frozen=True, slots=True)
class Source:
    """A feed: its home, "" for the first store, and the operation that reads it."""

    name: str
    home: str
    operation: str
    kinds: frozenset[ResourceKind]
    # Whether the list of resources has some of it.
    has_listed: bool
    # Returns what changed, given a page of the feed and the followed resources.
    find_changes: FindChanges


async def _of_records(
    call: CallOperation, uid: str, items: Sequence[Json], followed: set[ResourceUri]
) -> Changes:
    if any(item["type"] == ERASED for item in items):
        return Changes(is_gap=True)
    kinds: tuple[ResourceKind, ...] = ("record", "history")
    uris = {
        ResourceUri(kind, uid, item["subject"])
        for item in items
        if item["type"].startswith("record.")
        for kind in kinds
    }
    return Changes(frozenset(uris))


async def _of_memories(
    call: CallOperation, uid: str, items: Sequence[Json], followed: set[ResourceUri]
) -> Changes:
    memories = {uri for uri in followed if uri.kind == "memory" and uri.uid == uid}
    is_list_changed = any(item["type"].startswith("memory.") for item in items)
    changed = {
        ResourceUri("memory", uid, item["subject"])
        for item in items
        if item["type"].startswith("memory.")
    }
    guids = {item["subject"] for item in items if item["type"].startswith("record.")}
    is_erased = any(item["type"] == ERASED for item in items)
    if memories and (is_erased or len(guids) > MAX_LOOKED_UP):
        changed |= memories
    elif memories:
        for guid in guids:
            scope = await _find_scope(call, guid, home_of(uid, "memories"))
            changed |= memories if scope is None else {ResourceUri("memory", uid, scope)}
    return Changes(frozenset(changed), is_list_changed)


async def _find_scope(call: CallOperation, guid: str, store: str) -> str | None:
    """Return the scope of a record, which may be deleted; None if it is unknown."""
    found = await call("records.list", {"filter": {"guid": {"eq": guid}}, "limit": 1}, store)
    if not found["items"]:
        given = {"filter": {"guid": {"eq": guid}}, "limit": 1, "deleted": True}
        found = await call("records.list", given, store)
    return found["items"][0]["scope"] if found["items"] else None


async def _of_recipes(
    call: CallOperation, uid: str, items: Sequence[Json], followed: set[ResourceUri]
) -> Changes:
    uris = set[ResourceUri]()
    for item in items:
        event, data = item["event"], item["data"]
        if event.startswith("persistentMemory:"):
            uris.add(ResourceUri("recipe", uid, data["id"]))
        elif event.startswith("knowledgeGraph:"):
            instance = data.get("instanceId") or data.get("id")
            uris |= {GRAPH} if instance == GRAPH_INSTANCE else set()
    return Changes(frozenset(uris))


SOURCES = (
    Source("records", "", "changes.list", frozenset({"record", "history"}), True, _of_records),
    Source("memories", "memories", "changes.list", frozenset({"memory"}), True, _of_memories),
    Source(
        "recipes", "recipes", "recipes.changes", frozenset({"recipe", "graph"}), False, _of_recipes
    ),
)
