"""Observations of entities: the texts of a node of the graph `mcp`, kept in its content.

They may exceed the maximum size of `data`. They are the last lines of the content, and `data` has
the number of characters of each, because a text may contain line breaks.
"""

from typing import Any

# The id and name of the graph.
ENTITY_GRAPH = "mcp"
# The attribute of a node, and the key in `data` of their lengths.
OBSERVATIONS = "observations"


def split_observations(
    instance: str, attributes: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the attributes that `data` keeps, and the observations that the content keeps."""
    given = attributes.get(OBSERVATIONS)
    if instance != ENTITY_GRAPH or not isinstance(given, list):
        return attributes, []
    if not all(isinstance(one, str) for one in given):
        return attributes, []
    return {name: attributes[name] for name in attributes if name != OBSERVATIONS}, [*given]


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
    at, found = len(content) - sum(lengths) - len(lengths), list[str]()
    for length in lengths:
        found.append(content[at + 1 : at + 1 + length])
        at += 1 + length
    return found
