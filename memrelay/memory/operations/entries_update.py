"""entries.update: changes an entry without deduplication."""

from dataclasses import dataclass

import orjson

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.entries_get import entry_view, fetch_entry
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.records.data import Data, as_text
from memrelay.memory.records.entry_vector import find_cached_vector, store_vector
from memrelay.memory.records.memory_view import EntryView, Fact, Ident, MaybeIdent, TagList
from memrelay.memory.records.view import Versions
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.timestamps import next_change_ms


@dataclass(frozen=True, slots=True)
class UpdateEntry:
    """The changes of an entry. Omitted fields keep their values."""

    id: Ident
    """The id of the entry."""
    memory_id: MaybeIdent = ""
    """The memory that must contain the entry."""
    content: Fact | None = None
    """The new text."""
    tags: TagList | None = None
    """The new tags; they replace all present tags."""
    metadata: Data | None = None
    """The new metadata object; it replaces the present one."""
    if_version: Versions = ()
    """Change only if the entry has one of these versions."""


@operation("entries.update", access="write", mutates=True, home="memories", embeds="content")
def update_entry(tx: Transaction, change: UpdateEntry, context: Context) -> EntryView:
    """Change the given fields of an entry, without deduplication.

    Raises RecordNotFound: when the entry does not exist in the memory.
    Raises VersionConflict: when the entry has another version.
    """
    before = fetch_entry(tx, change.id, change.memory_id)
    further = tx.records.further(before.guid)
    check_version(before, further, change.if_version)
    tags = (
        before.tags
        if change.tags is None
        else orjson.dumps(list(dict.fromkeys(change.tags))).decode()
    )
    after = before._replace(
        content=before.content if change.content is None else change.content, tags=tags
    )
    known = further if change.metadata is None else further._replace(data=as_text(change.metadata))
    if (after, known) != (before, further):
        after = after._replace(updated_at=next_change_ms(context.now_ms, before.updated_at))
        tx.records.replace(before, after, known)
        if after.content != before.content:
            _store_vector(tx, after.guid, after.content)
    return entry_view(tx, after)


def _store_vector(tx: Transaction, guid: str, content: str) -> None:
    """Store the vector of the new text, if it was computed before the call."""
    place, vector = tx.records.by_guid(guid), find_cached_vector(tx, content)
    if place is not None and vector is not None:
        store_vector(tx, place.row, content, vector)
