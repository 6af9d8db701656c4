"""instances.delete: deletes an instance with everything in it."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.recipes.graph.instances import delete_graph
from memrelay.memory.recipes.sources.instances import InstanceName, Sort, find_instance, id_of
from memrelay.memory.records.view import Reason, Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteInstance:
    """The instance to delete."""

    sort: Sort
    """The sort: kv, events or graph."""
    id: InstanceName
    """The id or the name."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Delete only if the instance has one of these versions."""


@operation("instances.delete", access="delete", mutates=True, home="recipes")
def delete(tx: Transaction, target: DeleteInstance, context: Context) -> None:
    """Delete an instance with its pairs, events, nodes, edges and views.

    Raises RecordNotFound: when it does not exist.
    Raises VersionConflict: when it has another version.
    """
    place = find_instance(tx, target.sort, target.id)
    check_version(place.whole.record, place.whole.further, target.if_version)
    id_ = id_of(place)
    if target.sort == "kv":
        tx.recipes.kv.delete(id_)
    elif target.sort == "events":
        tx.recipes.events.delete(id_)
    else:
        delete_graph(tx, id_)
    tx.records.delete(place)
