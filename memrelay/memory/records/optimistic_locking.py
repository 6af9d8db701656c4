"""Optimistic locking: a change names the version that it expects, and any other one is refused."""

from memrelay.memory.engine.versions import StoredRecord
from memrelay.memory.errors import VersionConflict
from memrelay.memory.records.record import Record, RecordExtras
from memrelay.memory.records.view import version_of


def check_version(record: Record, extras: RecordExtras, allowed: tuple[str, ...]) -> None:
    """Raise VersionConflict if the record has none of the allowed versions; () allows all."""
    if allowed:
        refuse_other_version(f"record {record.guid}", version_of(record, extras), allowed)


def check_keyed_version(name: str, stored: StoredRecord | None, allowed: tuple[str, ...]) -> None:
    """Raise VersionConflict if the record with a key has none of the allowed versions; () allows
    all. It has none if the key is free.
    """
    if allowed:
        version = "" if stored is None else version_of(stored.state.record, stored.state.extras)
        refuse_other_version(name, version, allowed)


def refuse_other_version(name: str, version: str, allowed: tuple[str, ...]) -> None:
    """Raise VersionConflict if a version, "" for none, is not among the allowed ones."""
    if version not in allowed:
        state = f"has version {version}" if version else "does not exist"
        raise VersionConflict(
            f"{name} {state}, not the expected one; read it again and retry with its version"
        )
