"""knowledge_graph.create_relations: creates relations between entities."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.graph.entities import (
    MOST_PER_CALL,
    Relation,
    edge_values,
    ensure_graph,
    relation_of,
)
from memrelay.memory.recipes.graph.observations import ENTITY_GRAPH
from memrelay.memory.recipes.graph.table import Edge
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class CreateRelations:
    """The relations to create."""

    relations: Annotated[tuple[Relation, ...], Field(max_length=MOST_PER_CALL)]
    """The relations, at most 1,000. Existing ones are ignored. Their entities need not exist."""


@dataclass(frozen=True, slots=True)
class CreatedRelations:
    """The created relations."""

    items: tuple[Relation, ...]


@operation("knowledge_graph.create_relations", access="write", mutates=True, home="recipes")
def create_relations(tx: Transaction, given: CreateRelations, context: Context) -> CreatedRelations:
    """Create the relations that do not exist yet."""
    ensure_graph(tx, context)
    table = tx.recipes.graph
    existing = table.equal_edges(ENTITY_GRAPH, map(edge_values, given.relations))
    known = {*map(relation_of, existing)}
    created = [one for one in dict.fromkeys(given.relations) if one not in known]
    edges = [
        Edge(context.new_guid(), *edge_values(relation), context.now_ms) for relation in created
    ]
    table.insert_edges(ENTITY_GRAPH, edges)
    if edges:
        ids = [edge.id for edge in edges]
        tx.feed.add("edge.added" if len(ids) == 1 else "edges.added", ENTITY_GRAPH, {"ids": ids})
    return CreatedRelations(tuple(created))
