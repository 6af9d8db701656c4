"""graph.update_node: changes a node of a graph."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.recipes.faults import FaultList
from memrelay.memory.recipes.graph.edges import check_kind_change
from memrelay.memory.recipes.graph.instances import find_graph
from memrelay.memory.recipes.graph.names import SearchId
from memrelay.memory.recipes.graph.nodes import (
    NewNode,
    NodeName,
    NodeView,
    Time,
    check_node,
    find_node,
    view_node,
    with_values,
)
from memrelay.memory.records.view import Versions
from memrelay.memory.sqlite.store import Transaction


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


@operation("graph.update_node", access="write", mutates=True, home="recipes")
def update_node(tx: Transaction, change: UpdateNode, context: Context) -> NodeView:
    """Change the given fields of a node.

    Raises RecordNotFound: when the graph or the node does not exist.
    Raises VersionConflict: when the node has another version.
    Raises InvalidInput: when the node is invalid, or the node or one of its edges would not fit
    the template of the graph.
    """
    graph = find_graph(tx, change.instance)
    place = find_node(tx, graph.id, change.id)
    before = view_node(place.whole)
    check_version(place.whole.record, place.whole.further, change.if_version)
    given: dict[str, Any] = {
        name: value
        for name in ("name", "kind", "attributes", "valid_from", "valid_to")
        if (value := getattr(change, name)) is not None
    }
    kept: dict[str, Any] = {name: getattr(before, name) for name in ("name", "kind", "attributes")}
    kept |= {"valid_from": before.valid_from, "valid_to": before.valid_to}
    # An empty time removes the time.
    values = {name: None if value == "" else value for name, value in given.items()}
    after = NewNode(**(kept | values))
    faults = FaultList()
    check_node(after, graph, (), faults)
    faults.raise_any("the node")
    if after.kind != before.kind:
        check_kind_change(tx, graph, change.id, after.kind)
    state = with_values(place.whole, after)
    return view_node(place.whole if state == place.whole else tx.recipes.nodes.change(place, state))
