"""Nodes of graphs: records of kind `recipe.node`, whose content is the name and text attributes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import orjson
from pydantic import ConfigDict, Field, ValidationError

from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time, parse_ms
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import NameTaken, RecordNotFound
from memrelay.memory.models.recipes import NODE_KIND
from memrelay.memory.models.recipes.faults import FaultList
from memrelay.memory.models.recipes.graph.instances import Graph
from memrelay.memory.models.recipes.graph.names import check_name
from memrelay.memory.models.recipes.graph.observations import (
    OBSERVATIONS,
    join_attributes,
    split_observations,
)
from memrelay.memory.models.recipes.graph.table import scope_of
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.operations import Context
from memrelay.memory.records.data import checked, load_json
from memrelay.memory.records.view import version_of
from memrelay.memory.validation import Place

MAX_NAME_CHARACTERS = 1024
# Nodes or edges that one call adds.
MOST_ADDED = 1000
NodeName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
Time = Annotated[str, Field(max_length=40)]


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node to add."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", use_attribute_docstrings=True
    )

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


def view_node(state: State) -> NodeView:
    """Return the view of a stored node. Raises RecordDamaged."""
    data = load_json(state.data or "{}", state.guid)
    return NodeView(
        state.key or "",
        _instance_of(state),
        data["name"],
        data["kind"],
        join_attributes(data, state.content),
        data["valid_from"],
        data["valid_to"],
        format_time(state.created_at),
        format_time(state.updated_at),
        version_of(state.record, state.extras),
    )


def find_node(tx: Transaction, instance: str, id_: str) -> StoredRecord:
    """Return a stored node. Raises RecordNotFound."""
    place = tx.table(RecipeTables).nodes.find(scope_of(instance), id_)
    if place is None:
        raise RecordNotFound(f"graph {instance!r} has no node {id_!r}; list its nodes")
    return place


def add_nodes(
    tx: Transaction, graph: Graph, nodes: Sequence[NewNode], context: Context
) -> list[State]:
    """Add all nodes or none. Raises InvalidInput with every fault, and NameTaken."""
    faults = FaultList()
    for at, node in enumerate(nodes):
        check_node(node, graph, ("nodes", at), faults)
        if node.id:
            check_name(node.id, ("nodes", at, "id"), faults)
    faults.raise_any("the input")
    refuse_taken(node.id for node in nodes)
    given = [node.id for node in nodes if node.id]
    if taken := tx.table(RecipeTables).graph.node_kinds(graph.id, given):
        raise NameTaken(f"graph {graph.id!r} already has the nodes {', '.join([*taken][:5])}")
    return [insert_node(tx, graph.id, node, context) for node in nodes]


def refuse_taken(ids: Iterable[str]) -> None:
    """Raise NameTaken if an id occurs twice. "" stands for an id to generate."""
    twice = [id_ for id_, count in Counter(filter(None, ids)).items() if count > 1]
    if twice:
        raise NameTaken(f"the id {twice[0]!r} occurs twice in the input; ids are unique")


def check_node(node: NewNode, graph: Graph, path: Place, faults: FaultList) -> None:
    """Add a fault for each rule that a node breaks."""
    for side in ("valid_from", "valid_to"):
        value = getattr(node, side)
        if value is not None and parse_ms(value) is None:
            faults.add((*path, side), "bad_type", "is a time like 2026-11-22T05:00:00Z, or null")
    try:
        checked(_data_of(node, graph.id))
    except ValidationError as error:
        for found in error.errors(include_input=False, include_url=False):
            faults.add((*path, *(found["loc"] or ("attributes",))), "bad_type", found["msg"])
        return
    if check_name(node.kind, (*path, "kind"), faults) and graph.template is not None:
        graph.template.check_node(node.kind, node.attributes, path, faults)


def insert_node(tx: Transaction, instance: str, node: NewNode, context: Context) -> State:
    """Insert a valid node whose id is free, and return it as stored."""
    state = new_state(context.new_guid(), NODE_KIND, context.now_ms, context.actor)
    placed = state._replace(scope=scope_of(instance), key=node.id or state.guid)
    return tx.table(RecipeTables).nodes.insert(with_values(placed, node))


def with_values(state: State, node: NewNode) -> State:
    """Return the state of a record with the values of a node."""
    instance = _instance_of(state)
    attributes, observations = split_observations(instance, node.attributes)
    texts = [value for value in attributes.values() if isinstance(value, str)]
    data = orjson.dumps(_data_of(node, instance)).decode()
    return state._replace(content="\n".join([node.name, *texts, *observations]), data=data)


def _instance_of(state: State) -> str:
    return state.scope.removeprefix("graph/")


def _data_of(node: NewNode, instance: str) -> dict[str, Any]:
    attributes, observations = split_observations(instance, node.attributes)
    data = {
        "name": node.name,
        "kind": node.kind,
        "attributes": attributes,
        "valid_from": node.valid_from,
        "valid_to": node.valid_to,
    }
    return data | ({OBSERVATIONS: [*map(len, observations)]} if observations else {})
