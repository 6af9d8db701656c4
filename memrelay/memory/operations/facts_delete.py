"""facts.delete: deletes a fact by its id."""

from dataclasses import dataclass

from memrelay.memory.agents.facts import missing_fact
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.records.view import Guid, Reason, Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteFact:
    """The fact to delete."""

    id: Guid
    """The id of the fact."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Delete only if the fact has one of these versions."""


@operation("facts.delete", access="delete", mutates=True, home="memories", any_store=True)
def delete(tx: Transaction, target: DeleteFact, context: Context) -> None:
    """Delete a fact. records.restore can undo it.

    Raises RecordNotFound: when the fact does not exist.
    Raises VersionConflict: when the fact has another version.
    """
    place = tx.facts.by_guid(target.id)
    if place is None:
        raise missing_fact(f"the id {target.id!r}")
    check_version(place.whole.record, place.whole.further, target.if_version)
    tx.records.delete(place)
