"""Nodes of graphs: records of kind `recipe.node`, whose content is the name and text attributes."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import orjson
from pydantic import ConfigDict, Field, ValidationError

from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, parse_ms
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import NameTaken, RecordNotFound
from memrelay.memory.models.recipes import NODE_KIND
from memrelay.memory.models.recipes.faults import FaultList
from memrelay.memory.models.recipes.graph.edges import check_kind_change
from memrelay.memory.models.recipes.graph.names import (
    MOST_ADDED,
    NESTED_INPUT,
    SearchId,
    check_name,
    refuse_taken,
)
from memrelay.memory.models.recipes.instances import Graph, find_graph, find_id
from memrelay.memory.models.recipes.keyed_kind import view_edits
from memrelay.memory.models.recipes.table import RecipeTables, make_node_scope
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import checked, load_json
from memrelay.memory.records.optimistic_locking import check_version
from memrelay.memory.records.paging import Limit, take_page
from memrelay.memory.records.view import Reason, Versions
from memrelay.memory.validation import Place

MAX_NAME_CHARACTERS = 1024
NodeName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
Time = Annotated[str, Field(max_length=40)]
# The id and name of the graph.
ENTITY_GRAPH = "mcp"
# The attribute of a node, and the key in `data` of their lengths.
OBSERVATIONS = "observations"


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node."""

    id: str
    instance_id: str
    """The id of the graph."""
    name: str
    kind: str
    attributes: dict[str, Any]
    valid_from: str | None
    valid_to: str | None
    created_at: Moment
    updated_at: Moment
    version: str
    """Changes with every write; a write can require it."""


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node to add."""

    __pydantic_config__: ClassVar[ConfigDict] = NESTED_INPUT

    name: NodeName
    """The name."""
    kind: str
    """The kind, which the template of the graph may restrict."""
    id: str = ""
    """The id, unique within the graph. By default generated."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Further values: any JSON object."""
    valid_from: Time | None = None
    """The date or time from which the node is valid. It is only stored."""
    valid_to: Time | None = None
    """The date or time until which the node is valid. It is only stored."""


@dataclass(frozen=True, slots=True)
class AddNodes:
    """The nodes to add: all or none."""

    instance: SearchId
    """The id or name of the graph."""
    nodes: Annotated[tuple[NewNode, ...], Field(min_length=1, max_length=MOST_ADDED)]
    """The nodes, at most 1,000."""


@dataclass(frozen=True, slots=True)
class AddedNodes:
    """The added nodes."""

    items: tuple[NodeView, ...]


@operation("graph.add_nodes", access="write", mutates=True, store="recipes")
def create_nodes(tx: Transaction, new: AddNodes, context: Context) -> AddedNodes:
    """Add nodes to a graph: all, or none if one is invalid.

    Raises RecordNotFound: when the graph does not exist.
    Raises InvalidInput: when nodes are invalid or do not fit the template of the graph.
    Raises NameTaken: when the graph already has a node with one of the ids.
    """
    graph = find_graph(tx, new.instance)
    faults = FaultList()
    for at, node in enumerate(new.nodes):
        check_node(node, graph, ("nodes", at), faults)
        if node.id:
            check_name(node.id, ("nodes", at, "id"), faults)
    faults.raise_any("the input")
    refuse_taken(node.id for node in new.nodes)
    new_ids = [node.id for node in new.nodes if node.id]
    if taken := tx.table(RecipeTables).graph.node_kinds(graph.id, new_ids):
        raise NameTaken(f"graph {graph.id!r} already has the nodes {', '.join([*taken][:5])}")
    added = [insert_node(tx, graph.id, node, context) for node in new.nodes]
    ids = [state.key for state in added]
    tx.feed.add("node.added" if len(ids) == 1 else "nodes.added", graph.id, {"ids": ids})
    return AddedNodes(tuple(map(view_node, added)))


@dataclass(frozen=True, slots=True)
class GetNode:
    """The node to read."""

    instance: SearchId
    """The id or name of the graph."""
    id: SearchId
    """The id of the node."""


@operation("graph.get_node", access="read", mutates=False, store="recipes")
def get_node(tx: Transaction, query: GetNode, context: Context) -> NodeView:
    """Return a node.

    Raises RecordNotFound: when the graph or the node does not exist.
    """
    return view_node(find_node(tx, find_id(tx, "graph", query.instance), query.id).state)


@dataclass(frozen=True, slots=True)
class ListNodes:
    """The nodes to list, and the page."""

    instance: SearchId
    """The id or name of the graph."""
    kind: Annotated[str, Field(max_length=128)] = ""
    """Only nodes of this kind."""
    limit: Limit = 100
    """The maximum number of nodes. A page of long nodes may have fewer."""
    cursor: Annotated[str, Field(max_length=128)] = ""
    """The `next_cursor` of the previous page: the id of its last node."""


@dataclass(frozen=True, slots=True)
class NodePage:
    """A page of nodes, by id."""

    items: tuple[NodeView, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""
    total: int
    """The number of nodes on all pages."""


@operation("graph.list_nodes", access="read", mutates=False, store="recipes")
def list_nodes(tx: Transaction, query: ListNodes, context: Context) -> NodePage:
    """List the nodes of a graph by id, in pages.

    Raises RecordNotFound: when the graph does not exist.
    """
    graph, table = find_id(tx, "graph", query.instance), tx.table(RecipeTables).graph
    nodes = table.nodes(graph, query.kind, query.cursor, query.limit + 1)
    views = (view_node(stored.state) for stored in nodes)
    items, has_more = take_page(views, query.limit, context.result_bytes)
    total = table.count_nodes(graph, query.kind)
    return NodePage(tuple(items), items[-1].id if has_more else None, total)


@dataclass(frozen=True, slots=True)
class UpdateNode:
    """The changes of a node. Omitted fields keep their values."""

    instance: SearchId
    """The id or name of the graph."""
    id: SearchId
    """The id of the node."""
    name: NodeName | None = None
    """The new name."""
    kind: Annotated[str, Field(min_length=1)] | None = None
    """The new kind."""
    attributes: dict[str, Any] | None = None
    """The new attributes; they replace all present ones."""
    valid_from: Time | None = None
    """The new time from which the node is valid; "" removes it."""
    valid_to: Time | None = None
    """The new time until which the node is valid; "" removes it."""
    if_version: Versions = ()
    """Change only if the node has one of these versions."""


@operation("graph.update_node", access="write", mutates=True, store="recipes")
def update_node(tx: Transaction, change: UpdateNode, context: Context) -> NodeView:
    """Change the given fields of a node.

    Raises RecordNotFound: when the graph or the node does not exist.
    Raises VersionConflict: when the node has another version.
    Raises InvalidInput: when the node is invalid, or the node or one of its edges would not fit
    the template of the graph.
    """
    graph = find_graph(tx, change.instance)
    stored = find_node(tx, graph.id, change.id)
    before = view_node(stored.state)
    check_version(stored.state.record, stored.state.extras, change.if_version)
    fields = dict[str, Any]()
    for name in ("name", "kind", "attributes", "valid_from", "valid_to"):
        new, old = getattr(change, name), getattr(before, name)
        fields[name] = old if new is None else new
    # An empty time removes the time.
    fields["valid_from"] = fields["valid_from"] or None
    fields["valid_to"] = fields["valid_to"] or None
    after = NewNode(**fields)
    faults = FaultList()
    check_node(after, graph, (), faults)
    faults.raise_any("the node")
    if after.kind != before.kind:
        check_kind_change(tx, graph, change.id, after.kind)
    state = with_values(stored.state, after)
    if state != stored.state:
        state = tx.table(RecipeTables).nodes.change(stored, state)
    return view_node(state)


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """The node to delete."""

    instance: SearchId
    """The id or name of the graph."""
    id: SearchId
    """The id of the node."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Delete only if the node has one of these versions."""


@operation("graph.delete_node", access="delete", mutates=True, store="recipes")
def delete_node(tx: Transaction, target: DeleteNode, context: Context) -> None:
    """Delete a node and its edges.

    Raises RecordNotFound: when the graph or the node does not exist.
    Raises VersionConflict: when the node has another version.
    """
    graph = find_id(tx, "graph", target.instance)
    stored = find_node(tx, graph, target.id)
    check_version(stored.state.record, stored.state.extras, target.if_version)
    tx.table(RecipeTables).graph.delete_edges_at(graph, target.id)
    tx.records.delete(stored)


def view_node(state: State) -> NodeView:
    """Return the view of a stored node. Raises RecordDamaged."""
    data = load_json(state.data or "{}", state.guid)
    return NodeView(
        state.key or "",
        _parse_instance(state),
        data["name"],
        data["kind"],
        join_attributes(data, state.content),
        data["valid_from"],
        data["valid_to"],
        **view_edits(state),
    )


def find_node(tx: Transaction, instance: str, id_: str) -> StoredRecord:
    """Return a stored node. Raises RecordNotFound."""
    stored = tx.table(RecipeTables).nodes.find(make_node_scope(instance), id_)
    if stored is None:
        raise RecordNotFound(f"graph {instance!r} has no node {id_!r}; list its nodes")
    return stored


def check_node(node: NewNode, graph: Graph, path: Place, faults: FaultList) -> None:
    """Add a fault for each rule that a node breaks."""
    for side in ("valid_from", "valid_to"):
        value = getattr(node, side)
        if value is not None and parse_ms(value) is None:
            faults.add((*path, side), "bad_type", "is a time like 2026-11-22T05:00:00Z, or null")
    try:
        checked(_make_data(node, graph.id))
    except ValidationError as error:
        for fault in error.errors(include_input=False, include_url=False):
            faults.add((*path, *(fault["loc"] or ("attributes",))), "bad_type", fault["msg"])
        return
    if check_name(node.kind, (*path, "kind"), faults) and graph.template is not None:
        graph.template.check_node(node.kind, node.attributes, path, faults)


def insert_node(tx: Transaction, instance: str, node: NewNode, context: Context) -> State:
    """Insert a valid node whose id is free, and return it as stored."""
    state = new_state(context.new_guid(), NODE_KIND, context.now_ms, context.actor)
    placed = state._replace(scope=make_node_scope(instance), key=node.id or state.guid)
    return tx.table(RecipeTables).nodes.insert(with_values(placed, node))


def with_values(state: State, node: NewNode) -> State:
    """Return the state of a record with the values of a node."""
    instance = _parse_instance(state)
    attributes, observations = split_observations(instance, node.attributes)
    texts = [value for value in attributes.values() if isinstance(value, str)]
    data = orjson.dumps(_make_data(node, instance)).decode()
    return state._replace(content="\n".join([node.name, *texts, *observations]), data=data)


def _parse_instance(state: State) -> str:
    return state.scope.removeprefix("graph/")


def _make_data(node: NewNode, instance: str) -> dict[str, Any]:
    attributes, observations = split_observations(instance, node.attributes)
    data = {
        "name": node.name,
        "kind": node.kind,
        "attributes": attributes,
        "valid_from": node.valid_from,
        "valid_to": node.valid_to,
    }
    return data | ({OBSERVATIONS: [*map(len, observations)]} if observations else {})


def split_observations(
    instance: str, attributes: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the attributes that `data` keeps, and the observations that the content keeps."""
    observations = attributes.get(OBSERVATIONS)
    if instance != ENTITY_GRAPH or not isinstance(observations, list):
        return attributes, []
    if not all(isinstance(one, str) for one in observations):
        return attributes, []
    return {name: attributes[name] for name in attributes if name != OBSERVATIONS}, [*observations]


def join_attributes(data: dict[str, Any], content: str) -> dict[str, Any]:
    """Return the attributes of a stored node with its observations."""
    attributes: dict[str, Any] = data["attributes"]
    if OBSERVATIONS not in data:
        return attributes
    return attributes | {OBSERVATIONS: read_observations(data, content)}


def read_observations(data: dict[str, Any], content: str) -> list[str]:
    """Return the observations of a stored node."""
    lengths: list[int] = data.get(OBSERVATIONS, [])
    # A line break is before each of them.
    at, observations = len(content) - sum(lengths) - len(lengths), list[str]()
    for length in lengths:
        observations.append(content[at + 1 : at + 1 + length])
        at += 1 + length
    return observations
