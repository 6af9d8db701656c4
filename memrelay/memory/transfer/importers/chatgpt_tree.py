"""The tree of messages of a ChatGPT conversation: its field `mapping`."""

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

from memrelay.memory.transfer.importers.items import LeftOut


class Tree:
    """Nodes with a parent, children and perhaps a message."""

    def __init__(self, mapping: object) -> None:
        """Check the tree. Raises LeftOut: it is malformed or has a cycle."""
        if not isinstance(mapping, dict):
            raise LeftOut("`mapping` is not a JSON object")
        self._mapping: dict[str, dict[str, Any]] = mapping
        self._children: dict[str, dict[str, None]] = {node: {} for node in mapping}
        for node, fields in mapping.items():
            listed = _listed_children(node, fields)
            # A dict keeps the order of the list.
            self._children[node] |= {one: None for one in listed if one in mapping}
        for node in mapping:
            parent = self.parent(node)
            if parent is not None and parent in mapping:
                self._children[parent].setdefault(node)
        try:
            TopologicalSorter(self._children).prepare()
        except CycleError as error:
            raise LeftOut(
                f"`mapping` has a cycle through the node {str(error.args[1][0])[:80]!r}"
            ) from error

    def message(self, node: str) -> object:
        """Return the message of a node, None if it has none."""
        return self._mapping[node].get("message")

    def parent(self, node: str) -> str | None:
        """Return the parent of a node, None for a root."""
        parent: str | None = self._mapping[node].get("parent")
        return parent

    def path_to(self, node: object) -> dict[str, int]:
        """Return the depth of each node of the branch that ends in a node. Raises LeftOut."""
        if not isinstance(node, str) or node not in self._mapping:
            raise LeftOut("`current_node` is not in `mapping`; --all-branches does not need it")
        path: list[str] = []
        step: str | None = node
        while step is not None and step in self._mapping:
            path.append(step)
            step = self.parent(step)
        return {step: depth for depth, step in enumerate(reversed(path))}

    def nodes(self) -> Iterator[str]:
        """Yield all nodes in depth-first order."""
        below = {child for children in self._children.values() for child in children}
        open_nodes = [node for node in reversed(self._mapping) if node not in below]
        seen = set()
        while open_nodes:
            node = open_nodes.pop()
            if node not in seen:
                seen.add(node)
                yield node
                open_nodes.extend(reversed(self._children[node]))


def _listed_children(node: str, fields: object) -> list[str]:
    """Return the children that a node lists. Raises LeftOut: the node is malformed."""
    if not isinstance(fields, dict):
        raise LeftOut(f"the node {node[:80]!r} of `mapping` is not a JSON object")
    children, parent = fields.get("children") or [], fields.get("parent")
    if not isinstance(children, list) or not all(isinstance(one, str) for one in children):
        raise LeftOut(f"`children` of the node {node[:80]!r} is not a list of texts")
    if parent is not None and not isinstance(parent, str):
        raise LeftOut(f"`parent` of the node {node[:80]!r} is not a text")
    return children
