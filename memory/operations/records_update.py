"""records.update: changes what a record says, or how it is filed."""

from dataclasses import dataclass
from typing import Any

import orjson

from memrelay.memory.errors import VersionDiffers
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_get import fetch, fitting
from memrelay.memory.records.data import Data, as_text
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
from memrelay.memory.timestamps import change_ms


@dataclass(frozen=True, slots=True)
class UpdateRecord:
    """What is to be changed; what is not named stays as it is."""

    guid: Guid
    """The record's id."""
    content: Content | None = None
    """Another text."""
    kind: GivenName | None = None
    """Another kind."""
    scope: GivenName | None = None
    """Another scope."""
    source: GivenName | None = None
    """Another source."""
    tags: Tags | None = None
    """Other tags, in the place of those that it has."""
    key: Name | None = None
    """Another name of your own; "" for none."""
    owner: Name | None = None
    """Another owner; "" for none."""
    data: Data | None = None
    """Another object, in the place of the one that it has."""
    in_context: bool | None = None
    """Whether it is meant to be always at hand."""
    expires_at: End | None = None
    """Another time from which on it is gone; empty for never."""
    reason: Reason = ""
    """Why; kept in the history."""
    if_version: Versions = ()
    """Only where the record has one of these versions."""


@operation("records.update", access="write", mutates=True)
def update(tx: Transaction, change: UpdateRecord, context: Context) -> RecordView:
    """Changes what is named of a record.

    Raises NotThere, VersionDiffers, Refused for an end that is no time to come, and ResultTooLarge
    where it does not fit into
    an answer.
    """
    before, had = fetch(tx, change.guid)
    check_version(before, had, change.if_version)
    after, further = _changed(before, change, context.now_ms), _further(had, change)
    fitting(after, further, context)
    if (after, further) == (before, had):
        return view(before, had)
    after = after._replace(updated_at=change_ms(context.now_ms, before.updated_at))
    tx.records.replace(before, after, further)
    return view(after, further)


def check_version(record: Record, further: Further, allowed: tuple[str, ...]) -> None:
    """Raises VersionDiffers where a version is asked for that the record does not have."""
    if allowed and (version := version_of(record, further)) not in allowed:
        raise VersionDiffers(
            f"record {record.guid} has the version {version}, not the one that this was meant to change; look "
            "at it and decide anew"
        )


def _changed(record: Record, change: UpdateRecord, now_ms: int) -> Record:
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


def _further(had: Further, change: UpdateRecord) -> Further:
    named = {"key": change.key, "owner": change.owner}
    values: dict[str, Any] = {
        name: value or None for name, value in named.items() if value is not None
    }
    if change.data is not None:
        values["data"] = as_text(change.data)
    if change.in_context is not None:
        values["in_context"] = int(change.in_context)
    return had._replace(**values)
