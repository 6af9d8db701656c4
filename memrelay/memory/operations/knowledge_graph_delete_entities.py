"""knowledge_graph.delete_entities: deletes entities with their relations."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.entities import EntityNames, delete_relations_of, find_entity
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteEntities:
    """The entities to delete."""

    names: EntityNames
    """The names, at most 1,000. Unknown names are ignored."""


@operation("knowledge_graph.delete_entities", access="delete", mutates=True, home="recipes")
def delete_entities(tx: Transaction, target: DeleteEntities, context: Context) -> None:
    """Delete entities, and the relations that name them."""
    names = dict.fromkeys(target.names)
    delete_relations_of(tx, names)
    for name in names:
        if (place := find_entity(tx, name)) is not None:
            tx.records.delete(place)
