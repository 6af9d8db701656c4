"""The items that the graph steps of a recipe emit."""

from collections.abc import Mapping
from typing import Any

import orjson

from memrelay.memory.recipes.graph.nodes import view_node
from memrelay.memory.sqlite.versions import State

# The fields from which the text of an item comes, the first one that is present.
TEXT_FIELDS = ("text", "content", "summary", "message", "value", "label", "title", "name")


def text_of(fields: Mapping[str, Any]) -> str:
    """Return the text of an item: its first text field, else all fields as JSON."""
    value = next((fields[name] for name in TEXT_FIELDS if name in fields), fields)
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def node_item(state: State) -> dict[str, Any]:
    """Return the item of a node. Its text comes from the attributes, else it is the name."""
    node = view_node(state)
    return {
        "id": node.id,
        "text": text_of({**node.attributes, "name": node.name}),
        "name": node.name,
        "kind": node.kind,
        "attributes": node.attributes,
        "instance": node.instance,
    }
