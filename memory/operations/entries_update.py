"""entries.update: changes what an entry says, without looking for others like it."""

from dataclasses import dataclass

import orjson

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.entries_get import entry_view, fetch_entry
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.records.data import Data, as_text
from memrelay.memory.records.memory_view import EntryView, Fact, Ident, MaybeIdent, TagList
from memrelay.memory.records.view import Versions
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.timestamps import change_ms


@dataclass(frozen=True, slots=True)
class UpdateEntry:
    """What is to be changed; what is not named stays as it is."""

    id: Ident
    """The entry's id."""
    memory_id: MaybeIdent = ""
    """The memory in which it must be."""
    content: Fact | None = None
    """Another text."""
    tags: TagList | None = None
    """Other tags, in the place of those that it has."""
    metadata: Data | None = None
    """Another object, in the place of the one that it has."""
    if_version: Versions = ()
    """Only where the entry has one of these versions."""


@operation("entries.update", access="write", mutates=True, at_home=True)
def update_entry(tx: Transaction, change: UpdateEntry, context: Context) -> EntryView:
    """Changes what is named of an entry; it is compared with no other.

    Raises NotThere and VersionDiffers.
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
        after = after._replace(updated_at=change_ms(context.now_ms, before.updated_at))
        tx.records.replace(before, after, known)
    return entry_view(tx, after)
