"""records.delete: deletes a record by its guid. The block can also delete all of a kind."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_get import fetch
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.records.kinds import is_agent_memory, refuse_reserved
from memrelay.memory.records.view import Guid, Reason, Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class DeleteInput:
    """The record with `guid`, or all records of `kind` if `guid` is empty."""

    guid: str = ""
    kind: str = ""
    # Whether the guid may be that of an agent's memory.
    with_agents: bool = False


def delete(tx: Transaction, target: DeleteInput) -> int:
    """Delete the records and return their number. Raises Refused if the kind is reserved."""
    refuse_reserved(target.kind)
    if not target.guid:
        return tx.records.delete_all({"kind": target.kind}) if target.kind else 0
    found = tx.records.by_guid(target.guid)
    hides = tx.records.has_agent_memory and not target.with_agents
    if found is None or (hides and is_agent_memory(found.whole.kind)):
        return 0
    tx.records.delete(found)
    return 1


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """The record to delete."""

    guid: Guid
    """The guid of the record."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Delete only if the record has one of these versions."""


@operation("records.delete", access="delete", mutates=True)
def delete_record(tx: Transaction, target: DeleteRecord, context: Context) -> None:
    """Delete one record. records.restore can undo it.

    Raises RecordNotFound: when the record does not exist.
    Raises VersionConflict: when the record has another version.
    """
    check_version(*fetch(tx, target.guid), target.if_version)
    delete(tx, DeleteInput(target.guid, with_agents=True))
