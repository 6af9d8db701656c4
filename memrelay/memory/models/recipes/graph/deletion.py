"""Delete a graph with its nodes, edges and views."""

from memrelay.memory.engine.store import Transaction
from memrelay.memory.models.recipes import NODE_KIND
from memrelay.memory.models.recipes.graph.table import scope_of
from memrelay.memory.models.recipes.records import RecipeTables


def delete_graph(tx: Transaction, instance: str) -> None:
    """Delete the nodes, edges and views of a graph, whose instance record the caller deletes.

    The nodes keep their last versions.
    """
    tx.table(RecipeTables).graph.delete_rows(instance)
    tx.records.delete_all({"kind": NODE_KIND, "scope": scope_of(instance)})
