"""The named instances of sources: key-value stores, event logs and graphs.

An instance is a record whose scope is its sort and whose key is its id. Its content is its name.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from memrelay.memory.agents.keyed_table import new_state
from memrelay.memory.errors import NameTaken, RecordNotFound, Refused
from memrelay.memory.operation import Context
from memrelay.memory.recipes.objects import find_object
from memrelay.memory.records.data import as_text, kept_data
from memrelay.memory.records.kinds import INSTANCE_KIND
from memrelay.memory.records.view import version_of
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import State, StoredRecord
from memrelay.memory.timestamps import Moment, format_time

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
    if (found := tx.recipes.instances.find(sort, id_or_name)) is not None:
        return found
    return next((one for one in all_instances(tx, sort) if one.content == id_or_name), None)


def find_id(tx: Transaction, sort: str, id_or_name: str) -> str:
    """Return the id of an instance. Raises RecordNotFound."""
    return id_of(find_instance(tx, sort, id_or_name))


def id_of(place: StoredRecord) -> str:
    """Return the id of an instance."""
    return place.whole.key or ""


def all_instances(tx: Transaction, sort: str) -> list[StoredRecord]:
    """Return all instances of a sort in the order of their ids."""
    return list(tx.recipes.instances.page(sort, "", MOST_INSTANCES))


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
    if tx.recipes.instances.count(given.sort) >= MOST_INSTANCES:
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
    return tx.recipes.instances.insert(state)


def _check_template(tx: Transaction, given: NewInstance) -> None:
    if given.sort != "graph":
        raise Refused(f"a {NOUNS[given.sort]} has no template; leave out `template_id`")
    find_object(tx.recipes.graph_templates, given.template_id or "")


def refuse_taken(tx: Transaction, sort: str, name: str, own_id: str = "") -> None:
    """Raise NameTaken if another instance has that id or name."""
    found = find_or_none(tx, sort, name)
    if found is not None and id_of(found) != own_id:
        raise NameTaken(f"another {NOUNS[sort]} has the id or name {name!r}; choose another name")


def view_instance(tx: Transaction, state: State) -> InstanceView:
    """Return the view of an instance with its counts."""
    id_, sort, data = state.key or "", state.scope, kept_data(state.record, state.further)
    is_kv, is_log, is_graph = (sort == one for one in ("kv", "events", "graph"))
    recipes = tx.recipes
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
        version_of(state.record, state.further),
    )
