"""The named instances of sources: key-value stores, event logs and graphs.

An instance is a record whose scope is its sort and whose key is its id. Its content is its name.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import NameTaken, RecordNotFound, Refused
from memrelay.memory.models.recipes import INSTANCE_KIND
from memrelay.memory.models.recipes.graph.deletion import delete_graph
from memrelay.memory.models.recipes.objects import find_object
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import as_text, kept_data
from memrelay.memory.records.view import Reason, Versions, version_of
from memrelay.memory.records.writing import check_version

Sort = Literal["kv", "events", "graph"]
MAX_NAME_CHARACTERS = 200
MOST_INSTANCES = 1000
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
class InstanceTarget:
    """An instance."""

    sort: Sort
    """The sort: kv, events or graph."""
    id: InstanceName
    """The id or the name."""


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


def find_instance(tx: Transaction, sort: str, id_or_name: str) -> StoredRecord:
    """Return the record of an instance. Raises RecordNotFound."""
    if (found := find_or_none(tx, sort, id_or_name)) is None:
        raise _not_found(sort, id_or_name)
    return found


def _not_found(sort: str, id_or_name: str) -> RecordNotFound:
    return RecordNotFound(
        f"there is no {NOUNS[sort]} {id_or_name[:MAX_NAME_CHARACTERS]!r}; create it, or list "
        "the instances for their ids"
    )


def find_or_none(tx: Transaction, sort: str, id_or_name: str) -> StoredRecord | None:
    """Return the record of the instance with that id, else with that name, None for none."""
    if (found := tx.table(RecipeTables).instances.find(sort, id_or_name)) is not None:
        return found
    return next((one for one in all_instances(tx, sort) if one.content == id_or_name), None)


def find_id(tx: Transaction, sort: str, id_or_name: str) -> str:
    """Return the id of an instance. Raises RecordNotFound."""
    return id_of(find_instance(tx, sort, id_or_name))


def id_of(place: StoredRecord) -> str:
    """Return the id of an instance."""
    return place.state.key or ""


def all_instances(tx: Transaction, sort: str) -> list[StoredRecord]:
    """Return all instances of a sort in the order of their ids."""
    return list(tx.table(RecipeTables).instances.page(sort, "", MOST_INSTANCES))


def ensure_id(tx: Transaction, sort: Sort, name: str, context: Context, *, create: bool) -> str:
    """Return the id of an instance, which is created if `create` is set and there is none.

    Raises RecordNotFound.
    """
    found = find_or_none(tx, sort, name)
    if found is not None:
        return id_of(found)
    if not create:
        raise _not_found(sort, name)
    return create_instance(tx, NewInstance(sort, name), context).key or ""


def create_instance(tx: Transaction, given: NewInstance, context: Context) -> State:
    """Create an instance. Raises NameTaken, Refused and RecordNotFound."""
    refuse_taken(tx, given.sort, given.name)
    if tx.table(RecipeTables).instances.count(given.sort) >= MOST_INSTANCES:
        raise Refused(
            f"a home has at most {MOST_INSTANCES} instances of a sort; delete one that is unused, "
            "or use namespaces or streams of one instance"
        )
    data: dict[str, Any] = {"description": given.description} if given.description else {}
    if given.template_id is not None:
        _check_template(tx, given)
        data["template_id"] = given.template_id
    guid = context.new_guid()
    state = new_state(guid, INSTANCE_KIND, context.now_ms, context.actor)._replace(
        scope=given.sort,
        key=given.name if ID.fullmatch(given.name) else guid,
        content=given.name,
        data=as_text(data),
    )
    return tx.table(RecipeTables).instances.insert(state)


def _check_template(tx: Transaction, given: NewInstance) -> None:
    if given.sort != "graph":
        raise Refused(f"a {NOUNS[given.sort]} has no template; leave out `template_id`")
    find_object(tx.table(RecipeTables).graph_templates, given.template_id or "")


def refuse_taken(tx: Transaction, sort: str, name: str, own_id: str = "") -> None:
    """Raise NameTaken if another instance has that id or name."""
    found = find_or_none(tx, sort, name)
    if found is not None and id_of(found) != own_id:
        raise NameTaken(f"another {NOUNS[sort]} has the id or name {name!r}; choose another name")


def view_instance(tx: Transaction, state: State) -> InstanceView:
    """Return the view of an instance with its counts."""
    id_, sort, data = state.key or "", state.scope, kept_data(state.record, state.extras)
    is_kv, is_log, is_graph = (sort == one for one in ("kv", "events", "graph"))
    recipes = tx.table(RecipeTables)
    return InstanceView(
        id_,
        sort,  # type: ignore[arg-type]
        state.content,
        data.get("description", ""),
        data.get("template_id"),
        recipes.kv.count(id_) if is_kv else None,
        tuple(recipes.kv.namespaces(id_, MOST_NAMES)) if is_kv else None,
        recipes.events.count(id_) if is_log else None,
        tuple(recipes.events.streams(id_, MOST_NAMES)) if is_log else None,
        recipes.graph.count_nodes(id_) if is_graph else None,
        recipes.graph.count_edges(id_) if is_graph else None,
        format_time(state.created_at),
        format_time(state.updated_at),
        version_of(state.record, state.extras),
    )


@operation("instances.create", access="write", mutates=True, home="recipes")
def create(tx: Transaction, given: NewInstance, context: Context) -> InstanceView:
    """Create a key-value store, an event log or a graph.

    Raises NameTaken: when another instance of the sort has the name.
    Raises Refused: when a template is given for another sort than a graph.
    Raises RecordNotFound: when the template does not exist.
    """
    return view_instance(tx, create_instance(tx, given, context))


@operation("instances.get", access="read", mutates=False, home="recipes")
def get(tx: Transaction, wanted: InstanceTarget, context: Context) -> InstanceView:
    """Return an instance with its counts.

    Raises RecordNotFound: when it does not exist.
    """
    return view_instance(tx, find_instance(tx, wanted.sort, wanted.id).state)


@dataclass(frozen=True, slots=True)
class ListInstances:
    """The instances to list."""

    sort: Sort
    """The sort: kv, events or graph."""


@dataclass(frozen=True, slots=True)
class Instances:
    """All instances of a sort."""

    items: tuple[InstanceView, ...]


@operation("instances.list", access="read", mutates=False, home="recipes")
def list_instances(tx: Transaction, wanted: ListInstances, context: Context) -> Instances:
    """List the instances of a sort with their counts, the newest first.

    Raises SearchTooLong: when the counts exceed the time limit.
    """
    states = [place.state for place in all_instances(tx, wanted.sort)]
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


@operation("instances.update", access="write", mutates=True, home="recipes")
def update(tx: Transaction, change: UpdateInstance, context: Context) -> InstanceView:
    """Change the name or the description of an instance.

    Raises RecordNotFound: when it does not exist.
    Raises NameTaken: when another instance of the sort has the name.
    Raises VersionConflict: when it has another version.
    """
    place = find_instance(tx, change.sort, change.id)
    before = place.state
    check_version(before.record, before.extras, change.if_version)
    data = kept_data(before.record, before.extras)
    if change.description is not None:
        data = data | {"description": change.description}
    name = before.content if change.name is None else change.name
    refuse_taken(tx, change.sort, name, id_of(place))
    after = before._replace(content=name, data=as_text(data))
    if after != before:
        after = tx.table(RecipeTables).instances.change(place, after)
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


@operation("instances.delete", access="delete", mutates=True, home="recipes")
def delete(tx: Transaction, target: DeleteInstance, context: Context) -> None:
    """Delete an instance with its pairs, events, nodes, edges and views.

    Raises RecordNotFound: when it does not exist.
    Raises VersionConflict: when it has another version.
    """
    place = find_instance(tx, target.sort, target.id)
    check_version(place.state.record, place.state.extras, target.if_version)
    id_ = id_of(place)
    if target.sort == "kv":
        tx.table(RecipeTables).kv.delete(id_)
    elif target.sort == "events":
        tx.table(RecipeTables).events.delete(id_)
    else:
        delete_graph(tx, id_)
    tx.records.delete(place)
