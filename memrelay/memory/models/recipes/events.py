"""The events of recipes and their sources, as Codebolt's clients receive them.

Each change in the feed of the home `recipes` becomes at most one event. The feed has ids only, so
an event has the current object. Of an object that no longer exists it has the ids that are known.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import orjson

from memrelay.memory.engine.feed import CREATED, DELETED, UPDATED, Change
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import State
from memrelay.memory.errors import RecordDamaged
from memrelay.memory.models.recipes import (
    GRAPH_TEMPLATE_KIND,
    INSTANCE_KIND,
    NODE_KIND,
    RECIPE_KIND,
    VIEW_TEMPLATE_KIND,
)
from memrelay.memory.models.recipes.event_log import view_event
from memrelay.memory.models.recipes.graph.edges import view_edge
from memrelay.memory.models.recipes.graph.nodes import view_node
from memrelay.memory.models.recipes.graph.templates import view_graph_template
from memrelay.memory.models.recipes.graph.views import view_template_view, view_view
from memrelay.memory.models.recipes.instances import view_instance
from memrelay.memory.models.recipes.kv import value_of
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.records.ids import uid_of_store

Json = dict[str, Any]
VERBS: dict[str, str] = {CREATED: "created", UPDATED: "updated", DELETED: "deleted"}
SORTS = {"kv": "kvStore", "events": "eventLog", "graph": "knowledgeGraph"}
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
LEFT_OUT = ("version", "sort")
COUNTS = ("record_count", "namespaces", "event_count", "streams", "node_count", "edge_count")


class RecipeEvent(NamedTuple):
    """An event: its name, and the object that changed."""

    name: str
    data: Json


def event_of(tx: Transaction, change: Change, most_bytes: int) -> tuple[RecipeEvent, int] | None:
    """Return the event of a change and its size in bytes. It has ids only if its object is damaged
    or has more than `most_bytes`.
    """
    try:
        event = _resolve_event(tx, change)
    except RecordDamaged:
        event = _without_values(tx, change)
    if event is not None and len(orjson.dumps(event.data)) > most_bytes:
        event = _without_values(tx, change)
    if event is None:
        return None
    return event, len(orjson.dumps(event.data))


def _resolve_event(tx: Transaction, change: Change) -> RecipeEvent | None:
    """Return the event of a change, None if it has none."""
    if change.type in VERBS:
        return _event_of_record(tx, change)
    ids = orjson.loads(change.data) if change.data else {}
    resolve = _OF_ROWS.get(change.type)
    return None if resolve is None else resolve(tx, change.subject, ids)


def _without_values(tx: Transaction, change: Change) -> RecipeEvent | None:
    """Return the event of a change with ids only, for an object that is too large or unreadable."""
    if change.type in VERBS:
        return None
    names = _NAMES_OF_ROWS.get(change.type)
    ids = orjson.loads(change.data) if change.data else {}
    return None if names is None else RecipeEvent(names, {"instanceId": change.subject, **ids})


def _event_of_record(tx: Transaction, change: Change) -> RecipeEvent | None:
    place = tx.records.by_guid(change.subject)
    exists = place is not None
    if place is not None:
        state = place.state
    elif (last := tx.records.versions.deleted(change.subject)) is not None:
        state = last.state
    else:
        return None
    verb = VERBS[change.type]
    if state.kind == RECIPE_KIND:
        return RecipeEvent(f"persistentMemory:{verb}", _recipe(tx, state))
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
        data = _object(view_template_view(state))
        return RecipeEvent(f"knowledgeGraph:view-template-{verb}", data.pop("query") | data)
    return None


def _recipe(tx: Transaction, state: State) -> Json:
    label = orjson.loads(state.content).get("label", "")
    return {"id": state.key, "label": label, "projectId": uid_of_store(tx.memory_id)}


def _pair(tx: Transaction, instance: str, ids: Json) -> RecipeEvent:
    namespace, key = ids["namespace"], ids["key"]
    pair = tx.table(RecipeTables).kv.get(instance, namespace, [key]).get(key)
    value = None if pair is None else value_of(instance, pair)
    data = {"instanceId": instance, "namespace": namespace, "key": key, "value": value}
    return RecipeEvent("kvStore:record-set", data)


def _pair_deleted(tx: Transaction, instance: str, ids: Json) -> RecipeEvent:
    data = {"instanceId": instance, "namespace": ids["namespace"], "key": ids["key"]}
    return RecipeEvent("kvStore:record-deleted", data)


def _namespace_cleared(tx: Transaction, instance: str, ids: Json) -> RecipeEvent:
    data = {"instanceId": instance, "namespace": ids["namespace"]}
    return RecipeEvent("kvStore:namespace-cleared", data)


def _events(tx: Transaction, instance: str, ids: Json) -> Iterable[Json]:
    wanted = ("id IN (SELECT value FROM json_each(?))", (_json(ids["ids"]),))
    window = (len(ids["ids"]), 0)
    found = tx.table(RecipeTables).events.select(instance, wanted, window, ("row", ()))
    return [_object(view_event(instance, event)) for event in found]


def _nodes(tx: Transaction, instance: str, ids: Json) -> Iterable[Json]:
    places = [tx.table(RecipeTables).nodes.find(f"graph/{instance}", id_) for id_ in ids["ids"]]
    return [_object(view_node(place.state)) for place in places if place is not None]


def _edges(tx: Transaction, instance: str, ids: Json) -> Iterable[Json]:
    edges = [tx.table(RecipeTables).graph.edge(instance, id_) for id_ in ids["ids"]]
    return [_object(view_edge(instance, edge)) for edge in edges if edge is not None]


def _edge_deleted(tx: Transaction, instance: str, ids: Json) -> RecipeEvent:
    return RecipeEvent("knowledgeGraph:edge-deleted", {"instanceId": instance, **ids})


def _view_created(tx: Transaction, id_: str, ids: Json) -> RecipeEvent:
    view = tx.table(RecipeTables).graph.view(id_)
    data = {"id": id_} if view is None else _object(view_view(view))
    return RecipeEvent("knowledgeGraph:view-created", _with_template(data))


def _view_deleted(tx: Transaction, id_: str, ids: Json) -> RecipeEvent:
    data = {RENAMED[name]: value for name, value in ids.items() if name in RENAMED}
    return RecipeEvent("knowledgeGraph:view-deleted", {"id": id_} | _with_template(data))


def _with_template(data: Json) -> Json:
    """Return a view with Codebolt's name of its template."""
    return {("viewTemplateId" if name == "templateId" else name): data[name] for name in data}


def _one(name: str, read: Callable[[Transaction, str, Json], Iterable[Json]]) -> "_Resolve":
    """Return a function for the event of one object."""

    def resolve(tx: Transaction, instance: str, ids: Json) -> RecipeEvent:
        known = {"id": ids["ids"][0], "instanceId": instance}
        return RecipeEvent(name, next(iter(read(tx, instance, ids)), known))

    return resolve


def _many(
    name: str, field: str, read: Callable[[Transaction, str, Json], Iterable[Json]]
) -> "_Resolve":
    """Return a function for the event of several objects."""

    def resolve(tx: Transaction, instance: str, ids: Json) -> RecipeEvent:
        return RecipeEvent(name, {"instanceId": instance, field: list(read(tx, instance, ids))})

    return resolve


def _object(view: Any) -> Json:
    """Return an object in Codebolt's spelling, without the counts of other sorts."""
    return {
        RENAMED.get(name, name): value
        for name, value in asdict(view).items()
        if name not in LEFT_OUT and not (name in COUNTS and value is None)
    }


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


_Resolve = Callable[[Transaction, str, Json], RecipeEvent]
_NAMES_OF_ROWS = {
    "kv.set": "kvStore:record-set",
    "event.appended": "eventLog:event-appended",
    "events.appended": "eventLog:events-appended",
    "node.added": "knowledgeGraph:record-added",
    "nodes.added": "knowledgeGraph:records-added",
    "edge.added": "knowledgeGraph:edge-added",
    "edges.added": "knowledgeGraph:edges-added",
}
_OF_ROWS: Mapping[str, _Resolve] = {
    "kv.set": _pair,
    "kv.deleted": _pair_deleted,
    "kv.cleared": _namespace_cleared,
    "event.appended": _one(_NAMES_OF_ROWS["event.appended"], _events),
    "events.appended": _many(_NAMES_OF_ROWS["events.appended"], "events", _events),
    "node.added": _one(_NAMES_OF_ROWS["node.added"], _nodes),
    "nodes.added": _many(_NAMES_OF_ROWS["nodes.added"], "records", _nodes),
    "edge.added": _one(_NAMES_OF_ROWS["edge.added"], _edges),
    "edges.added": _many(_NAMES_OF_ROWS["edges.added"], "edges", _edges),
    "edge.deleted": _edge_deleted,
    "view.created": _view_created,
    "view.deleted": _view_deleted,
}
