"""rules.delete: deletes a rule engine."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.recipes.assembly.stored_engines import find_engine
from memrelay.memory.records.view import Guid, Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteRules:
    """The rule engine to delete."""

    id: Guid
    """The id of the engine."""
    if_version: Versions = ()
    """Delete only if the engine has one of these versions."""


@operation("rules.delete", access="delete", mutates=True, home="recipes")
def delete_rules(tx: Transaction, target: DeleteRules, context: Context) -> None:
    """Delete a rule engine.

    Raises RecordNotFound: when it does not exist.
    Raises VersionConflict: when it has another version.
    """
    place = find_engine(tx, target.id)
    check_version(place.whole.record, place.whole.further, target.if_version)
    tx.records.delete(place)
