"""Finds what is wrong with an entry: it repeats another one, contradicts one, or is stale.

The scores, and most contradictions, are those of deduplication (named_memories/dedup).
"""

from dataclasses import dataclass
from typing import Any, Literal

import orjson

from memrelay.memory.engine.filter_sql import has_expired
from memrelay.memory.engine.retention import DAY_MS
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.engine.versions import StoredRecord
from memrelay.memory.models.consolidation.contradiction import exclude_each_other
from memrelay.memory.models.consolidation.table import ScannedEntry
from memrelay.memory.models.named_memories.candidates import compare_lines, find_candidates
from memrelay.memory.models.named_memories.dedup.similarity import (
    Similarity,
    is_contradicted_later,
)
from memrelay.memory.models.named_memories.entry_text import normalized, overlap, split_lines
from memrelay.memory.models.named_memories.table import EntryTable

Sort = Literal["duplicates", "contradictions", "stale"]
# Fields of `data` with the person or thing that a fact is about. Facts with other
# values are not compared.
SUBJECTS = ("user", "project")
# A fact with a slot and a value: {"key": "home", "value": "Rome"}.
SLOT, VALUE = "key", "value"
SCALARS = (str, int, float, bool)
DUPLICATE_WHY, SLOT_WHY = "near duplicate", "the same key has another value"
CONTRADICTS_WHY = "contradicts a newer entry"


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored entry, with what decides which of two stays."""

    stored: StoredRecord
    data: dict[str, Any]
    confirmations: int
    # When it was last written, changed or confirmed, Unix ms.
    last_at: int

    @property
    def text(self) -> str:
        """Return its text."""
        return self.stored.content

    @property
    def is_one_line(self) -> bool:
        """Return whether it has one fact."""
        return len(split_lines(self.text)) < 2

    @property
    def subject(self) -> tuple[Any, ...]:
        """Return whom or what it is about, and until when it is true."""
        state = self.stored.state
        return state.owner, state.valid_to, *(self.data.get(name) for name in SUBJECTS)


@dataclass(frozen=True, slots=True)
class Finding:
    """An entry to delete, with the reason. `kept` is the entry that takes its place."""

    sort: Sort
    removed: Entry
    why: str
    kept: Entry | None = None


def find_pairs(
    tx: Transaction, entry: Entry, sorts: tuple[Sort, ...], threshold: float
) -> list[Finding]:
    """Return the near duplicates of an entry, and the entries that it contradicts or that
    contradict it.

    `threshold` is the score from which on two entries are near duplicates.
    """
    same, opposite = [], []
    for other, similarity in _compare_others(tx, entry):
        if similarity.score >= threshold and not _is_outdated(entry, other):
            same.append((other, similarity))
        elif why := find_contradiction(entry, other):
            opposite.append((other, why))
    found: list[Finding] = []
    if "duplicates" in sorts and same:
        best = max([entry, *(other for other, _ in same)], key=_rank_detail)
        for other, similarity in same:
            pair = _pick(entry, other, best)
            why = f"{DUPLICATE_WHY}: {similarity.why} (score {similarity.score:.2f})"
            found += [Finding("duplicates", pair[1], why, pair[0])] if pair else []
    if "contradictions" in sorts and opposite:
        newest = max([entry, *(other for other, _ in opposite)], key=_rank_age)
        for other, why in opposite:
            pair = _pick(entry, other, newest)
            found += [Finding("contradictions", pair[1], why, pair[0])] if pair else []
    return found


def find_contradiction(entry: Entry, other: Entry) -> str:
    """Return why two entries contradict each other, "" if they do not.

    Entries with several lines are left out: each may state a change over time.
    """
    if SLOT in entry.data and isinstance(slot := entry.data[SLOT], str):
        values = [one.data.get(VALUE) for one in (entry, other)]
        if other.data.get(SLOT) == slot and all(isinstance(one, SCALARS) for one in values):
            return SLOT_WHY if values[0] != values[1] else ""
    if not (overlap(entry.text, other.text) and entry.is_one_line and other.is_one_line):
        return ""
    return CONTRADICTS_WHY if exclude_each_other(entry.text, other.text) else ""


def find_staleness(entry: ScannedEntry, stale_days: int, now_ms: int) -> str:
    """Return why an entry is stale, "" if it is not."""
    if entry.valid_to is not None and entry.valid_to <= now_ms:
        return f"stale: not valid since {format_time(entry.valid_to)[:10]}"
    if stale_days and entry.last_at <= now_ms - stale_days * DAY_MS:
        return f"stale: not written or confirmed since {format_time(entry.last_at)[:10]}"
    return ""


def read_entry(tx: Transaction, guid: str) -> Entry | None:
    """Return an entry with what decides about it, None if it is encrypted, expired or gone."""
    stored = tx.records.by_guid(guid)
    if stored is None:
        return None
    state = stored.state
    if state.encrypted or has_expired(state.expires_at, tx.records.versions.now_ms):
        return None
    confirmed = tx.table(EntryTable).confirmed(guid)
    data = orjson.loads(state.data or "{}")
    last_at = max(state.updated_at, confirmed.last or 0)
    return Entry(stored, data if isinstance(data, dict) else {}, confirmed.times, last_at)


def _compare_others(tx: Transaction, entry: Entry) -> list[tuple[Entry, Similarity]]:
    """Return entries of the same memory about the same subject that may be similar."""
    state = entry.stored.state
    found = tx.ranker.find_vector(entry.stored.row) if tx.vectors.serving() is not None else None
    vector, fingerprint = (None, "") if found is None else found
    compared = []
    for _, record, cosine in find_candidates(tx, state.scope, entry.text, vector):
        other = None if record.guid == state.guid else read_entry(tx, record.guid)
        if other is None or other.subject != entry.subject:
            continue
        # The text of one line is looked for in the other one.
        new, old = (entry, other) if entry.is_one_line else (other, entry)
        if not new.is_one_line and normalized(new.text) != normalized(old.text):
            continue
        compared.append((other, compare_lines(new.text, old.text, cosine, fingerprint)))
    return compared


def _is_outdated(entry: Entry, other: Entry) -> bool:
    """Return whether one is a line of the other that a later line there contradicts."""
    if entry.is_one_line == other.is_one_line:
        return False
    new, old = (entry, other) if entry.is_one_line else (other, entry)
    return is_contradicted_later(new.text, split_lines(old.text))


def _pick(entry: Entry, other: Entry, best: Entry) -> tuple[Entry, Entry] | None:
    """Return (kept, removed) of two entries, None if the best of several is neither.

    The entry is compared with others again when that one is looked at.
    """
    if best is entry:
        return entry, other
    return (other, entry) if best is other else None


def _rank_detail(entry: Entry) -> tuple[int, int, int]:
    """Rank near duplicates: the one with most text stays, then the most confirmed and oldest."""
    return len(entry.text), entry.confirmations, -entry.stored.row


def _rank_age(entry: Entry) -> tuple[int, int, int]:
    """Rank contradictions: the one that began to be true last stays, then the last written."""
    return entry.stored.state.valid_from or 0, entry.last_at, entry.stored.row
