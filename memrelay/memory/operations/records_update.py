"""records.update: changes the content and fields of a record."""

from dataclasses import dataclass
from typing import Any

import orjson

from memrelay.memory.errors import VersionConflict
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_get import check_fits, fetch
from memrelay.memory.records.data import Data, as_text
from memrelay.memory.records.kinds import refuse_reserved
from memrelay.memory.records.record import Further, Record
from memrelay.memory.records.tags import parse
from memrelay.memory.records.view import (
    Content,
    End,
    GivenName,
    Guid,
    Name,
    Reason,
    RecordView,
    Tags,
    Versions,
    end_ms,
    version_of,
    view,
)
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.timestamps import next_change_ms


@dataclass(frozen=True, slots=True)
class UpdateRecord:
    """The changes of a record. Omitted fields keep their values."""

    guid: Guid
    """The guid of the record."""
    content: Content | None = None
    """The new text."""
    kind: GivenName | None = None
    """The new kind."""
    scope: GivenName | None = None
    """The new scope."""
    source: GivenName | None = None
    """The new source."""
    tags: Tags | None = None
    """The new tags; they replace all present tags."""
    key: Name | None = None
    """The new name of your own; "" removes it."""
    owner: Name | None = None
    """The new owner; "" removes it."""
    data: Data | None = None
    """The new data object; it replaces the present one."""
    in_context: bool | None = None
    """Whether the record should always be part of the context."""
    expires_at: End | None = None
    """The new expiry time; "" means never."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Change only if the record has one of these versions."""


@operation("records.update", access="write", mutates=True)
def update(tx: Transaction, change: UpdateRecord, context: Context) -> RecordView:
    """Change the given fields of a record.

    Raises RecordNotFound: when the record does not exist.
    Raises VersionConflict: when the record has another version.
    Raises Refused: when the expiry time is invalid or past, or the old or new kind is
    reserved.
    Raises ResultTooLarge: when the record would not fit into an answer.
    """
    refuse_reserved(change.kind)
    before, had = fetch(tx, change.guid)
    refuse_reserved(before.kind)
    check_version(before, had, change.if_version)
    after, further = _apply(before, change, context.now_ms), _apply_further(had, change)
    check_fits(after, further, context)
    if (after, further) == (before, had):
        return view(before, had)
    after = after._replace(updated_at=next_change_ms(context.now_ms, before.updated_at))
    tx.records.replace(before, after, further)
    return view(after, further)


def check_version(record: Record, further: Further, allowed: tuple[str, ...]) -> None:
    """Raise VersionConflict if the record has none of the allowed versions; () allows all."""
    if allowed and (version := version_of(record, further)) not in allowed:
        raise VersionConflict(
            f"record {record.guid} has version {version}, not the expected one; "
            "read it again and retry with its version"
        )


def _apply(record: Record, change: UpdateRecord, now_ms: int) -> Record:
    given: dict[str, Any] = {
        "content": change.content,
        "kind": change.kind,
        "scope": change.scope,
        "source": change.source,
    }
    values = {name: value for name, value in given.items() if value is not None}
    if change.tags is not None:
        values["tags"] = orjson.dumps(parse(change.tags)).decode()
    if change.expires_at is not None:
        values["expires_at"] = end_ms(change.expires_at, now_ms)
    return record._replace(**values)


def _apply_further(had: Further, change: UpdateRecord) -> Further:
    named = {"key": change.key, "owner": change.owner}
    values: dict[str, Any] = {
        name: value or None for name, value in named.items() if value is not None
    }
    if change.data is not None:
        values["data"] = as_text(change.data)
    if change.in_context is not None:
        values["in_context"] = int(change.in_context)
    return had._replace(**values)
