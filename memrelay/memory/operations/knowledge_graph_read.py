"""knowledge_graph.read: reads the whole knowledge graph."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.entities import EntityGraph, whole_graph
from memrelay.memory.recipes.graph.views import limited
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ReadGraph:
    """Nothing is given: the whole graph is read."""


@operation("knowledge_graph.read", access="read", mutates=False, home="recipes")
def read_graph(tx: Transaction, wanted: ReadGraph, context: Context) -> EntityGraph:
    """Return all entities and relations, in the order in which they were created.

    Raises ResultTooLarge: when the graph does not fit into one answer.
    Raises SearchTooLong: when the read exceeds its time limit.
    """
    with limited(tx, "the graph"):
        return whole_graph(tx, context)
