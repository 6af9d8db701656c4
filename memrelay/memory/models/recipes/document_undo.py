"""Undoes the chunks of a document, which only have a meaning together.

Each put of a document changes its first chunk. The first chunk has the smallest guid, so an undo
comes to it first, and the others follow it.
"""

from itertools import pairwise

import orjson

from memrelay.memory.engine.origins import UNDO
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import State
from memrelay.memory.models.recipes.table import RecipeTables

SHORTENED = "parts of the document before are no longer kept"
NOT_UNDONE = "the document has another text now"


def find_fault(tx: Transaction, state: State, is_deletion: bool) -> str:
    """Return why an undo leaves a chunk as it is, "" if it does not."""
    if not state.seq:
        return "" if is_deletion or not _has_shrunk(tx, state) else SHORTENED
    chunks = tx.table(RecipeTables).documents.chunks(state.thread or "")
    first = chunks[0].state if chunks and not chunks[0].state.seq else None
    if first is None:
        return "" if is_deletion else NOT_UNDONE
    origin = tx.records.versions.origins.find(first.origin)
    if origin is None or not origin.profile.startswith(UNDO):
        return NOT_UNDONE
    is_surplus = state.seq >= _count(first)
    is_taken = any(one.state.seq == state.seq and one.state.guid != state.guid for one in chunks)
    return "" if is_surplus == is_deletion and not is_taken else NOT_UNDONE


def _has_shrunk(tx: Transaction, wanted: State) -> bool:
    """Return whether the document has lost chunks since a state of its first chunk. A shorter text
    deletes the surplus chunks with their history.
    """
    place, versions = tx.records.by_guid(wanted.guid), tx.records.versions
    present = () if place is None else (place.content, place.state.number)
    later = [] if place is None else [place.state]
    for version in versions.of(wanted.guid, *present):
        if version.state.number < wanted.number:
            break
        if version.there:
            later.append(version.state)
    counts = [_count(state) for state in later]
    return any(after < before for after, before in pairwise(counts))


def _count(first: State) -> int:
    """Return the number of chunks of a document, by its first one."""
    return int(orjson.loads(first.data or "{}").get("chunks", 1))
