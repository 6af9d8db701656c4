"""The named instances of sources: key-value stores, event logs and graphs.

An instance is a record whose scope is its sort and whose key is its id. Its content is its name.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import NameTaken, RecordNotFound, Refused
from memrelay.memory.models.recipes import INSTANCE_KIND, NODE_KIND
from memrelay.memory.models.recipes.graph.templates import (
    GRAPH_TEMPLATES,
    FittingTemplate,
    find_fitting_template,
)
from memrelay.memory.models.recipes.keyed_kind import view_edits
from memrelay.memory.models.recipes.table import RecipeTables, make_node_scope
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import as_text, kept_data
from memrelay.memory.records.optimistic_locking import check_version
from memrelay.memory.records.view import Reason, Versions

Sort = Literal["kv", "events", "graph"]
MAX_NAME_CHARACTERS = 200
MOST_INSTANCES = 1000
# The counts of a view. Those of other sorts are null.
COUNTS = ("record_count", "namespaces", "event_count", "streams", "node_count", "edge_count")
# Namespaces or streams that a view names.
MOST_NAMES = 1000
# The name of an instance becomes its id if it has this form.
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
NOUNS: dict[str, str] = {"kv": "key-value store", "events": "event log", "graph": "graph"}
# An id or a name.
InstanceName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
Description = Annotated[str, Field(max_length=4096)]


@dataclass(frozen=True, slots=True)
class InstanceView:
    """An instance. The counts of other sorts are null."""

    id: str
    sort: Sort
    name: str
    description: str
    template_id: str | None
    """The graph template that nodes and edges must fit; null for none."""
    record_count: int | None
    """The number of key-value pairs."""
    namespaces: tuple[str, ...] | None
    """The namespaces of a key-value store, at most 1,000."""
    event_count: int | None
    """The number of events."""
    streams: tuple[str, ...] | None
    """The streams of an event log, at most 1,000."""
    node_count: int | None
    """The number of nodes of a graph."""
    edge_count: int | None
    """The number of edges of a graph."""
    created_at: Moment
    updated_at: Moment
    version: str
    """Changes with every edit; an edit can require it."""


@dataclass(frozen=True, slots=True)
class NewInstance:
    """An instance to create."""

    sort: Sort
    """The sort: kv, events or graph."""
    name: InstanceName
    """The name. It becomes the id if it has only letters, digits, dots, dashes and underscores."""
    description: Description = ""
    """The purpose of the instance."""
    template_id: str | None = None
    """Only for a graph: the template that its nodes and edges must fit."""


@operation("instances.create", access="write", mutates=True, store="recipes")
def create(tx: Transaction, new: NewInstance, context: Context) -> InstanceView:
    """Create a key-value store, an event log or a graph.

    Raises NameTaken: when another instance of the sort has the name.
    Raises Refused: when a template is given for another sort than a graph.
    Raises RecordNotFound: when the template does not exist.
    """
    return view_instance(tx, create_instance(tx, new, context))


@dataclass(frozen=True, slots=True)
class InstanceTarget:
    """An instance."""

    sort: Sort
    """The sort: kv, events or graph."""
    id: InstanceName
    """The id or the name."""


@operation("instances.get", access="read", mutates=False, store="recipes")
def get(tx: Transaction, query: InstanceTarget, context: Context) -> InstanceView:
    """Return an instance with its counts.

    Raises RecordNotFound: when it does not exist.
    """
    return view_instance(tx, find_instance(tx, query.sort, query.id).state)


@dataclass(frozen=True, slots=True)
class ListInstances:
    """The instances to list."""

    sort: Sort
    """The sort: kv, events or graph."""


@dataclass(frozen=True, slots=True)
class Instances:
    """All instances of a sort."""

    items: tuple[InstanceView, ...]


@operation("instances.list", access="read", mutates=False, store="recipes")
def list_instances(tx: Transaction, query: ListInstances, context: Context) -> Instances:
    """List the instances of a sort with their counts, the newest first.

    Raises SearchTooLong: when the counts exceed the time limit.
    """
    states = [stored.state for stored in all_instances(tx, query.sort)]
    states.sort(key=lambda state: (state.created_at, state.guid), reverse=True)
    with tx.bounded_search():
        return Instances(tuple(view_instance(tx, state) for state in states))


@dataclass(frozen=True, slots=True)
class UpdateInstance:
    """The instance to change. Fields that are not set stay unchanged."""

    sort: Sort
    """The sort: kv, events or graph."""
    id: InstanceName
    """The id or the name."""
    name: InstanceName | None = None
    """The new name. The id never changes."""
    description: Description | None = None
    """The new description."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Change only if the instance has one of these versions."""


@operation("instances.update", access="write", mutates=True, store="recipes")
def update(tx: Transaction, change: UpdateInstance, context: Context) -> InstanceView:
    """Change the name or the description of an instance.

    Raises RecordNotFound: when it does not exist.
    Raises NameTaken: when another instance of the sort has the name.
    Raises VersionConflict: when it has another version.
    """
    stored = find_instance(tx, change.sort, change.id)
    before = stored.state
    check_version(before.record, before.extras, change.if_version)
    data = _read_data(before)
    if change.description is not None:
        data = data | {"description": change.description}
    name = before.content if change.name is None else change.name
    refuse_taken(tx, change.sort, name, read_id(stored))
    after = before._replace(content=name, data=as_text(data))
    if after != before:
        after = tx.table(RecipeTables).instances.change(stored, after)
    return view_instance(tx, after)


@dataclass(frozen=True, slots=True)
class DeleteInstance:
    """The instance to delete."""

    sort: Sort
    """The sort: kv, events or graph."""
    id: InstanceName
    """The id or the name."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Delete only if the instance has one of these versions."""


@operation("instances.delete", access="delete", mutates=True, store="recipes")
def delete(tx: Transaction, target: DeleteInstance, context: Context) -> None:
    """Delete an instance with its pairs, events, nodes, edges and views.

    Raises RecordNotFound: when it does not exist.
    Raises VersionConflict: when it has another version.
    """
    stored = find_instance(tx, target.sort, target.id)
    check_version(stored.state.record, stored.state.extras, target.if_version)
    id_ = read_id(stored)
    if target.sort == "kv":
        tx.table(RecipeTables).kv.delete(id_)
    elif target.sort == "events":
        tx.table(RecipeTables).events.delete(id_)
    else:
        tx.table(RecipeTables).graph.delete_rows(id_)
        # The nodes keep their last versions.
        tx.records.delete_all({"kind": NODE_KIND, "scope": make_node_scope(id_)})
    tx.records.delete(stored)


def view_instance(tx: Transaction, state: State) -> InstanceView:
    id_, data, recipes = state.key or "", _read_data(state), tx.table(RecipeTables)
    counts: dict[str, Any] = dict.fromkeys(COUNTS)
    if state.scope == "kv":
        counts["record_count"] = recipes.kv.count(id_)
        counts["namespaces"] = tuple(recipes.kv.namespaces(id_, MOST_NAMES))
    elif state.scope == "events":
        counts["event_count"] = recipes.events.count(id_)
        counts["streams"] = tuple(recipes.events.streams(id_, MOST_NAMES))
    else:
        counts["node_count"] = recipes.graph.count_nodes(id_)
        counts["edge_count"] = recipes.graph.count_edges(id_)
    sort: Any = state.scope
    return InstanceView(
        id_,
        sort,
        state.content,
        data.get("description", ""),
        data.get("template_id"),
        **counts | view_edits(state),
    )


def _read_data(state: State) -> dict[str, Any]:
    return kept_data(state.record, state.extras)


def create_instance(tx: Transaction, new: NewInstance, context: Context) -> State:
    """Create an instance. Raises NameTaken, Refused and RecordNotFound."""
    refuse_taken(tx, new.sort, new.name)
    if tx.table(RecipeTables).instances.count(new.sort) >= MOST_INSTANCES:
        raise Refused(
            f"a built-in store has at most {MOST_INSTANCES} instances of a sort; delete one that "
            "is unused, or use namespaces or streams of one instance"
        )
    data: dict[str, Any] = {"description": new.description} if new.description else {}
    if new.template_id is not None:
        if new.sort != "graph":
            raise Refused(f"a {NOUNS[new.sort]} has no template; leave out `template_id`")
        GRAPH_TEMPLATES.find(tx, new.template_id)
        data["template_id"] = new.template_id
    guid = context.new_guid()
    state = new_state(guid, INSTANCE_KIND, context.now_ms, context.actor)._replace(
        scope=new.sort,
        key=new.name if ID.fullmatch(new.name) else guid,
        content=new.name,
        data=as_text(data),
    )
    return tx.table(RecipeTables).instances.insert(state)


def find_instance(tx: Transaction, sort: str, id_or_name: str) -> StoredRecord:
    """Return the record of an instance. Raises RecordNotFound."""
    if (stored := find_or_none(tx, sort, id_or_name)) is None:
        raise _not_found(sort, id_or_name)
    return stored


def find_or_none(tx: Transaction, sort: str, id_or_name: str) -> StoredRecord | None:
    """Return the record of the instance with that id, else with that name, None for none."""
    if (stored := tx.table(RecipeTables).instances.find(sort, id_or_name)) is not None:
        return stored
    return next((one for one in all_instances(tx, sort) if one.content == id_or_name), None)


def find_id(tx: Transaction, sort: str, id_or_name: str) -> str:
    """Return the id of an instance. Raises RecordNotFound."""
    return read_id(find_instance(tx, sort, id_or_name))


def read_id(stored: StoredRecord) -> str:
    return stored.state.key or ""


def all_instances(tx: Transaction, sort: str) -> list[StoredRecord]:
    """Return all instances of a sort in the order of their ids."""
    return list(tx.table(RecipeTables).instances.page(sort, "", MOST_INSTANCES))


def ensure_id(tx: Transaction, sort: Sort, name: str, context: Context, *, create: bool) -> str:
    """Return the id of an instance, which is created if `create` is set and there is none.

    Raises RecordNotFound.
    """
    stored = find_or_none(tx, sort, name)
    if stored is not None:
        return read_id(stored)
    if not create:
        raise _not_found(sort, name)
    return create_instance(tx, NewInstance(sort, name), context).key or ""


def _not_found(sort: str, id_or_name: str) -> RecordNotFound:
    return RecordNotFound(
        f"there is no {NOUNS[sort]} {id_or_name[:MAX_NAME_CHARACTERS]!r}; create it, or list "
        "the instances for their ids"
    )


def refuse_taken(tx: Transaction, sort: str, name: str, own_id: str = "") -> None:
    """Raise NameTaken if another instance has that id or name."""
    stored = find_or_none(tx, sort, name)
    if stored is not None and read_id(stored) != own_id:
        raise NameTaken(f"another {NOUNS[sort]} has the id or name {name!r}; choose another name")


class Graph(NamedTuple):
    """A graph: its id, and the template that nodes and edges must fit, None for none."""

    id: str
    template: FittingTemplate | None
    template_id: str


def find_graph(tx: Transaction, id_or_name: str) -> Graph:
    """Return a graph by its id or name. Raises RecordNotFound."""
    stored = find_instance(tx, "graph", id_or_name)
    data = _read_data(stored.state)
    template_id = data.get("template_id") or ""
    return Graph(stored.state.key or "", find_fitting_template(tx, template_id), template_id)
