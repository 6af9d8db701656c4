"""The changes of recipes and their sources, as the events that Codebolt's clients receive.

Each change in the feed of the built-in store `recipes` becomes at most one event. The feed has ids
only, so an event has the current object. Of an object that no longer exists it has the ids that are
known."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import Field

from memrelay.memory.engine.feed import CREATED, DELETED, UPDATED, Change
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import RecordDamaged, Refused
from memrelay.memory.models.recipes import (
    GRAPH_TEMPLATE_KIND,
    INSTANCE_KIND,
    NODE_KIND,
    RECIPE_KIND,
    VIEW_TEMPLATE_KIND,
)
from memrelay.memory.models.recipes.events import view_event
from memrelay.memory.models.recipes.graph.graph import view_edge, view_node
from memrelay.memory.models.recipes.graph.templates import view_graph_template, view_view_template
from memrelay.memory.models.recipes.graph.views import view_view
from memrelay.memory.models.recipes.instances import COUNTS, view_instance
from memrelay.memory.models.recipes.kv import read_value
from memrelay.memory.models.recipes.table import RecipeTables, make_node_scope
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.ids import uid_of_store

# Changes that one call reads, at most.
MAX_READ = 1000
# Bytes of an event besides its data.
EVENT_BYTES = 200
Json = dict[str, Any]
VERBS: dict[str, str] = {CREATED: "created", UPDATED: "updated", DELETED: "deleted"}
SORTS = {"kv": "kvStore", "events": "eventLog", "graph": "knowledgeGraph"}
# The names of events by the type of a change of rows.
ROW_EVENTS: dict[str, str] = {
    "kv.set": "kvStore:record-set",
    "kv.deleted": "kvStore:record-deleted",
    "kv.cleared": "kvStore:namespace-cleared",
    "event.appended": "eventLog:event-appended",
    "events.appended": "eventLog:events-appended",
    "node.added": "knowledgeGraph:record-added",
    "nodes.added": "knowledgeGraph:records-added",
    "edge.added": "knowledgeGraph:edge-added",
    "edges.added": "knowledgeGraph:edges-added",
    "edge.deleted": "knowledgeGraph:edge-deleted",
    "view.created": "knowledgeGraph:view-created",
    "view.deleted": "knowledgeGraph:view-deleted",
}
# Fields whose names differ in Codebolt's objects.
RENAMED = {
    "created_at": "createdAt",
    "updated_at": "updatedAt",
    "record_count": "recordCount",
    "event_count": "eventCount",
    "node_count": "nodeCount",
    "edge_count": "edgeCount",
    "instance_id": "instanceId",
    "template_id": "templateId",
}
RENAMED_IN_VIEWS = RENAMED | {"template_id": "viewTemplateId"}
LEFT_OUT = ("version", "sort")


@dataclass(frozen=True, slots=True)
class ListRecipeChanges:
    """The changes to list."""

    after: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The `next` of the previous call; 0 for the oldest change that is kept."""
    limit: Annotated[int, Field(ge=1, le=MAX_READ)] = 100
    """The maximum number of events."""


@dataclass(frozen=True, slots=True)
class RecipeChange:
    """A change as an event."""

    n: int
    """Its number. A later change has a higher one."""
    event: str
    """Its name, such as `persistentMemory:created`."""
    data: dict[str, Any]
    """The object as it is now, or ids if it no longer exists or is too large."""
    timestamp: Moment


@dataclass(frozen=True, slots=True)
class RecipeChanges:
    """The changes, the oldest first."""

    items: tuple[RecipeChange, ...]
    next: int
    """The `after` of the next call, also if there are no items."""
    last: int
    """The number of the newest change. There is more to read while `next` is lower."""


@operation("recipes.changes", access="read", mutates=False, store="recipes")
def list_recipe_changes(
    tx: Transaction, query: ListRecipeChanges, context: Context
) -> RecipeChanges:
    """List changes of recipes and of what they read in order, with the changed objects.

    Raises Refused: when `after` is higher than the last change, as after a restored backup.
    """
    changes, last = tx.feed.after(query.after, MAX_READ), tx.feed.last
    if query.after > last:
        raise Refused(
            f"the last change is {last}, so the store was replaced after {query.after} was read; "
            f"read the objects again and continue with `after`: {last}"
        )
    items, reached, left = list[RecipeChange](), query.after, context.result_bytes
    for change in changes:
        resolved = make_event(tx, change, context.result_bytes // 2)
        if resolved is not None:
            (name, data), size = resolved
            left -= size + EVENT_BYTES
            if items and left < 0:
                break
            items.append(RecipeChange(change.n, name, data, format_time(change.at)))
        reached = change.n
        if len(items) == query.limit:
            break
    return RecipeChanges(tuple(items), reached, last)


class RecipeEvent(NamedTuple):
    """An event: its name, and the object that changed."""

    name: str
    data: Json


def make_event(tx: Transaction, change: Change, most_bytes: int) -> tuple[RecipeEvent, int] | None:
    """Return the event of a change and its size in bytes, None if it has none.

    The event has ids only if its object is damaged or has more than `most_bytes`.
    """
    try:
        make = _make_record_event if change.type in VERBS else _make_row_event
        event = make(tx, change)
    except RecordDamaged:
        event = _make_event_of_ids(change)
    if event is not None and len(orjson.dumps(event.data)) > most_bytes:
        event = _make_event_of_ids(change)
    return None if event is None else (event, len(orjson.dumps(event.data)))


def _make_event_of_ids(change: Change) -> RecipeEvent | None:
    """Return the event of rows with ids only. Records have none."""
    name = ROW_EVENTS.get(change.type)
    data = {"instanceId": change.subject, **_read_ids(change)}
    return None if name is None else RecipeEvent(name, data)


def _read_ids(change: Change) -> Json:
    ids: Json = orjson.loads(change.data) if change.data else {}
    return ids


def _make_record_event(tx: Transaction, change: Change) -> RecipeEvent | None:
    stored = tx.records.by_guid(change.subject)
    exists = stored is not None
    if stored is not None:
        state = stored.state
    elif (last := tx.records.versions.deleted(change.subject)) is not None:
        state = last.state
    else:
        return None
    verb = VERBS[change.type]
    if state.kind == RECIPE_KIND:
        label = orjson.loads(state.content).get("label", "")
        data = {"id": state.key, "label": label, "projectId": uid_of_store(tx.memory_id)}
        return RecipeEvent(f"persistentMemory:{verb}", data)
    if state.kind == INSTANCE_KIND:
        name = f"{SORTS.get(state.scope, state.scope)}:instance-{verb}"
        if not exists:
            return RecipeEvent(name, {"id": state.key, "name": state.content})
        return RecipeEvent(name, _object(view_instance(tx, state)))
    if state.kind == NODE_KIND and change.type != CREATED:
        node = view_node(state)
        # The event of a deleted graph stands for its nodes.
        if exists or tx.table(RecipeTables).instances.find("graph", node.instance_id) is not None:
            return RecipeEvent(f"knowledgeGraph:record-{verb}", _object(node))
    if state.kind == GRAPH_TEMPLATE_KIND:
        data = _object(view_graph_template(state))
        return RecipeEvent(f"knowledgeGraph:instance-template-{verb}", data)
    if state.kind == VIEW_TEMPLATE_KIND:
        data = _object(view_view_template(state))
        return RecipeEvent(f"knowledgeGraph:view-template-{verb}", data.pop("query") | data)
    return None


def _make_row_event(tx: Transaction, change: Change) -> RecipeEvent | None:
    name, subject, ids = ROW_EVENTS.get(change.type), change.subject, _read_ids(change)
    if name is None:
        return None
    data: Json = {"instanceId": subject, **ids}
    match change.type:
        case "kv.set":
            namespace, key = ids["namespace"], ids["key"]
            pair = tx.table(RecipeTables).kv.get(subject, namespace, [key]).get(key)
            data["value"] = None if pair is None else read_value(subject, pair)
        case "event.appended" | "node.added" | "edge.added":
            rows = _read_rows(tx, change, ids["ids"])
            data = rows[0] if rows else {"id": ids["ids"][0], "instanceId": subject}
        case "events.appended":
            data = {"instanceId": subject, "events": _read_rows(tx, change, ids["ids"])}
        case "nodes.added":
            data = {"instanceId": subject, "records": _read_rows(tx, change, ids["ids"])}
        case "edges.added":
            data = {"instanceId": subject, "edges": _read_rows(tx, change, ids["ids"])}
        case "view.created":
            view = tx.table(RecipeTables).graph.view(subject)
            data = {"id": subject}
            if view is not None:
                data = _object(view_view(view), RENAMED_IN_VIEWS)
        case "view.deleted":
            data = {"id": subject, **{RENAMED_IN_VIEWS[field]: ids[field] for field in ids}}
    return RecipeEvent(name, data)


def _read_rows(tx: Transaction, change: Change, ids: list[str]) -> list[Json]:
    """Return the events, nodes or edges of a change that still exist."""
    recipes, instance = tx.table(RecipeTables), change.subject
    if change.type.startswith("event"):
        where = "id IN (SELECT value FROM json_each(?))", (orjson.dumps(ids).decode(),)
        events = recipes.events.select(instance, where, (len(ids), 0), ("row", ()))
        return [_object(view_event(instance, event)) for event in events]
    if change.type.startswith("node"):
        nodes = (recipes.nodes.find(make_node_scope(instance), id_) for id_ in ids)
        return [_object(view_node(node.state)) for node in nodes if node is not None]
    edges = (recipes.graph.edge(instance, id_) for id_ in ids)
    return [_object(view_edge(instance, edge)) for edge in edges if edge is not None]


def _object(view: Any, names: Mapping[str, str] = RENAMED) -> Json:
    """Return an object in Codebolt's spelling, without the counts of other sorts."""
    return {
        names.get(name, name): value
        for name, value in asdict(view).items()
        if name not in LEFT_OUT and not (name in COUNTS and value is None)
    }
