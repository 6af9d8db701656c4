"""Walks over a graph: breadth first, along the edges of a node in the order of their addition."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import State
from memrelay.memory.models.recipes.graph.table import scope_of
from memrelay.memory.models.recipes.records import RecipeTables

Direction = Literal["outgoing", "incoming", "both"]


@dataclass(frozen=True, slots=True)
class Walk:
    """How to walk: over edges of these kinds (none are all), up to a distance."""

    kinds: Sequence[str] = ()
    direction: Direction = "both"
    depth: int = 1


class Step(NamedTuple):
    """A node that a walk reached."""

    state: State
    # The number of edges from the seed.
    distance: int
    # The seed of the walk.
    seed: str
    # The edge that reached it: its kind, the id of the node before, and its direction from there.
    edge: str
    before: str
    direction: str


def walk(
    tx: Transaction, instance: str, seeds: Iterable[str], how: Walk, excluded: Iterable[str] = ()
) -> Iterator[Step]:
    """Yield each node that the seeds reach, once, the nearest first. Seeds are not yielded.

    `excluded` nodes are neither yielded nor walked over.
    """
    waiting = deque((seed, 0, seed) for seed in dict.fromkeys(seeds))
    seen = {*excluded, *(seed for seed, *_ in waiting)}
    scope = scope_of(instance)
    while waiting:
        node, distance, seed = waiting.popleft()
        for edge in tx.table(RecipeTables).graph.edges_at(instance, node, how.direction, how.kinds):
            is_outgoing = edge.from_node == node and how.direction != "incoming"
            other = edge.to_node if is_outgoing else edge.from_node
            if other in seen:
                continue
            seen.add(other)
            place = tx.table(RecipeTables).nodes.find(scope, other)
            if place is None:
                continue
            if distance + 1 < how.depth:
                waiting.append((other, distance + 1, seed))
            direction = "outgoing" if is_outgoing else "incoming"
            yield Step(place.state, distance + 1, seed, edge.kind, node, direction)
