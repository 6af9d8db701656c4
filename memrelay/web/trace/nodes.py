"""The messages and records of a trace as its page draws them."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from memrelay.web.trace.tree import Published

MAX_NODES = 150
MAX_RECORDS = 100
# Characters of a message, and of a record.
MAX_CHARACTERS = 300
# Deeper messages are drawn at this level.
MAX_DEPTH = 24
# Records that a message links to; the table lists all.
MAX_LINKS = 5


class Node(NamedTuple):
    """A message and its answers. `delay_ms` is the time after the first message."""

    message: Published
    text: str
    hidden: int
    delay_ms: int
    records: list[dict[str, Any]]
    answers: list["Node"]


def make_nodes(messages: Sequence[Published], records: Sequence[dict[str, Any]]) -> list[Node]:
    """Return the trees of the messages that answer no other one."""
    nodes, roots, depths = dict[str, Node](), list[Node](), dict[str, int]()
    written = _group_by_agent(records)
    for message in messages[:MAX_NODES]:
        node = Node(
            message,
            message.text[:MAX_CHARACTERS],
            message.characters - len(message.text[:MAX_CHARACTERS]),
            max(0, message.published_at_ms - messages[0].published_at_ms),
            # The first message of an agent links to its records.
            written.pop(message.agent, []) if message.agent else [],
            [],
        )
        parent = message.parent
        while parent in nodes and depths[parent] >= MAX_DEPTH:
            parent = nodes[parent].message.parent
        depths[message.mid] = depths.get(parent, 0) + 1
        nodes[message.mid] = node
        (nodes[parent].answers if parent in nodes else roots).append(node)
    return roots


def _group_by_agent(records: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found = defaultdict[str, list[dict[str, Any]]](list)
    for record in records:
        if len(found[record["agent"]]) < MAX_LINKS:
            found[record["agent"]].append(record)
    return found
