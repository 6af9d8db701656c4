"""The items that the graph steps of a recipe emit."""

from typing import Any

from memrelay.memory.engine.versions import State
from memrelay.memory.models.recipes.execution.items import item_text
from memrelay.memory.models.recipes.graph.nodes import view_node


def node_item(state: State) -> dict[str, Any]:
    """Return the item of a node. Its text comes from the attributes, else it is the name."""
    node = view_node(state)
    return {
        "id": node.id,
        "text": item_text({**node.attributes, "name": node.name}),
        "name": node.name,
        "kind": node.kind,
        "attributes": node.attributes,
        "instance": node.instance_id,
    }
