"""Erase the edges of erased nodes."""

from memrelay.memory.engine.erasures import ModelErasure
from memrelay.memory.engine.versions import State
from memrelay.memory.models.recipes import NODE_KIND

DELETE_EDGES = "DELETE FROM edges WHERE instance = ?1 AND (from_node = ?2 OR to_node = ?2)"


class EdgeErasure(ModelErasure):
    """Erases edges with their nodes."""

    def forget_record(self, record: State) -> None:
        """Delete the edges of an erased node."""
        if record.kind == NODE_KIND:
            instance = record.scope.removeprefix("graph/")
            self._connection.execute(DELETE_EDGES, (instance, record.key))
