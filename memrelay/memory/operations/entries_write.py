"""Writes entries of named memories with deduplication, for operations and blocks (seed 004).

The comparison and the change share one transaction of the store's only owner. So concurrent
writes of the same text produce one entry.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import nlargest
from typing import Any, Literal, NamedTuple

import orjson

from memrelay.memory.dedup.contradiction import is_contradicted_later
from memrelay.memory.dedup.parser import LONGEST
from memrelay.memory.dedup.similarity import (
    DUPLICATE,
    MOST_LINES,
    RELATED,
    SAME_BUT_FORM,
    SAME_TEXT,
    Similarity,
    compare,
    curve_of,
    related_score,
)
from memrelay.memory.embedding.questions import EmbeddedQuestion
from memrelay.memory.errors import VectorPending
from memrelay.memory.operations.records_write import WriteInput, write
from memrelay.memory.records.data import MOST_BYTES, as_text
from memrelay.memory.records.entry_text import (
    MAX_ENTRY_CHARACTERS,
    digest_of,
    lines_of,
    merged,
    moved_to_end,
    overlap,
)
from memrelay.memory.records.entry_vector import embed_merged, store_vector
from memrelay.memory.records.memory_view import KIND, Action
from memrelay.memory.records.record import PLAIN, Further, Record
from memrelay.memory.sqlite.filters import Conditions, has_expired
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.text.words import plain_tokens
from memrelay.memory.timestamps import next_change_ms

Mode = Literal["skip", "merge", "create", "supersede"]
# Entries compared by shared words, and again by near vectors. A comparison takes a third of a ms.
CANDIDATES = 8
# Entries with rare words of the text from which these are chosen; each takes 2 us.
MAX_WITH_WORDS = 1000
# The same number if vectors provide candidates too.
MAX_WITH_BOTH = 300
CLOSE_SCORE = 0.80  # the score of the cosine from which on texts are compared without shared words
NOT_SIMILAR = Similarity(0.0, "nothing like it")


class NewEntry(NamedTuple):
    """An entry to write. `now_ms` is Unix ms; `memory` is the id of its memory."""

    guid: str
    memory: str
    content: str
    now_ms: int
    source: str = "manual"
    tags: tuple[str, ...] = ()
    duplicate_threshold: float = DUPLICATE
    update_threshold: float = RELATED
    mode: Mode | None = None
    metadata: Mapping[str, Any] = {}
    may_wait: bool = True  # whether to raise VectorPending while the merged text has no vector
    confirms: bool = True  # whether a duplicate counts as a confirmation of the existing entry


class PlannedWrite(NamedTuple):
    """The effect that a write will have: `after` is the entry that then holds the text.

    `old` is the existing entry; None if the write creates one.
    """

    action: Action
    similarity: Similarity
    old: Record | None
    after: Record
    further: Further


class WriteResult(NamedTuple):
    """The result of a write: the entry that now holds the text."""

    guid: str
    action: Action
    similarity: Similarity


def write_entry(tx: Transaction, new: NewEntry, question: EmbeddedQuestion | None) -> WriteResult:
    """Create an entry, update a similar one, or confirm a duplicate.

    `question` is the vector of the content, if it is known.

    Raises VectorPending: a retry finds the vector of the merged text. Nothing was changed.
    """
    return apply_write(tx, new, plan_write(tx, new, question), question)


def plan_write(tx: Transaction, new: NewEntry, question: EmbeddedQuestion | None) -> PlannedWrite:
    """Decide what a write of the entry does. It changes no record, entry or confirmation."""
    if new.mode == "create":
        return plan_creation(new)
    tx.records.flush()
    found = tx.entries.same(new.memory, digest_of(new.content))
    unexpired = (
        record
        for guid in found
        for record in tx.records.select(Conditions({"guid": guid}), "asc", 1, 0)
    )
    same = next(unexpired, None)
    if same is not None and new.duplicate_threshold <= SAME_TEXT.score:
        return _plan_repeat(tx, new, same, _similarity_of_same(new.content, same.content))
    old, similarity = _most_similar(tx, new, question)
    decided = _decide(new, similarity.score)
    if old is None or decided == "create":
        return plan_creation(new, similarity)
    if decided == "skip":
        return _plan_repeat(tx, new, old, similarity)
    planned = _plan_update(tx, new, old, similarity, how=decided)
    return planned or plan_creation(new, similarity)


def plan_creation(new: NewEntry, similarity: Similarity = NOT_SIMILAR) -> PlannedWrite:
    """Plan a new entry. `similarity` is that of the most similar entry."""
    further = PLAIN._replace(data=as_text(dict(new.metadata))) if new.metadata else PLAIN
    tags = orjson.dumps(new.tags).decode()
    after = Record(
        new.guid, new.memory, KIND, new.content, new.source, tags, new.now_ms, new.now_ms
    )
    return PlannedWrite("created", similarity, None, after, further)


def apply_write(
    tx: Transaction, new: NewEntry, planned: PlannedWrite, question: EmbeddedQuestion | None
) -> WriteResult:
    """Carry out a planned write in the transaction that planned it.

    Raises VectorPending: a retry finds the vector of the merged text. Nothing was changed.
    """
    if planned.old is None:
        _create(tx, new, planned.further, question)
    elif planned.action == "updated":
        _update(tx, new, planned.old, planned, question)
    elif new.confirms:
        tx.entries.confirm(planned.old.guid, new.now_ms)
    return WriteResult(planned.after.guid, planned.action, planned.similarity)


def _decide(new: NewEntry, score: float) -> Mode:
    """Decide by the thresholds, which are inclusive. The duplicate threshold comes first."""
    is_known, overlaps = score >= new.duplicate_threshold, score >= new.update_threshold
    match new.mode:
        case "merge":
            return "merge" if is_known or overlaps else "create"
        case "supersede":
            return "skip" if is_known else "supersede" if overlaps else "create"
        case "skip":
            return "skip" if is_known else "create"
        case _:
            return "skip" if is_known else "merge" if overlaps else "create"


def _similarity_of_same(new: str, old: str) -> Similarity:
    """Return the similarity of a text with an entry that has its digest."""
    return SAME_TEXT if new == old or new in old.split("\n") else SAME_BUT_FORM


def _plan_repeat(
    tx: Transaction, new: NewEntry, old: Record, similarity: Similarity
) -> PlannedWrite:
    """Confirm an entry that states the text, or restore the text if a later line contradicts it."""
    if new.mode != "skip" and _is_outdated(new.content, old.content):
        similarity = similarity._replace(why=f"{similarity.why}, but a later line contradicts it")
        # Also in mode `supersede`: the entry's other lines may still hold.
        planned = _plan_update(tx, new, old, similarity, how="merge")
        if planned is not None:
            return planned
    return PlannedWrite("skipped", similarity, old, old, tx.records.further(old.guid))


def _plan_update(
    tx: Transaction, new: NewEntry, old: Record, similarity: Similarity, *, how: Mode
) -> PlannedWrite | None:
    """Update the existing entry; returns None if it would exceed the size limits."""
    content = new.content if how == "supersede" else _merge_text(old.content, new.content)
    further = tx.records.further(old.guid)
    if content == old.content:
        return PlannedWrite("skipped", similarity, old, old, further)
    data = as_text((orjson.loads(further.data) if further.data else {}) | dict(new.metadata))
    if len(content) > MAX_ENTRY_CHARACTERS or len((data or "").encode()) > MOST_BYTES:
        return None
    tags = orjson.dumps(list(dict.fromkeys([*orjson.loads(old.tags), *new.tags]))).decode()
    after = old._replace(
        content=content,
        tags=tags,
        source=new.source if how == "supersede" else old.source,
        score=0.0,
        updated_at=next_change_ms(new.now_ms, old.updated_at),
    )
    further = further._replace(data=data) if new.metadata else further
    return PlannedWrite("updated", similarity, old, after, further)


def _create(
    tx: Transaction, new: NewEntry, further: Further, question: EmbeddedQuestion | None
) -> None:
    write(
        tx,
        WriteInput(
            new.guid,
            new.memory,
            KIND,
            new.content,
            new.source,
            new.tags,
            new.now_ms,
            further=further,
        ),
    )
    tx.records.flush()
    tx.entries.digest(new.memory)
    if question is not None:
        store_vector(tx, tx.records.last_row, new.content, question)


def _update(
    tx: Transaction,
    new: NewEntry,
    old: Record,
    planned: PlannedWrite,
    question: EmbeddedQuestion | None,
) -> None:
    content = planned.after.content
    place, vector = tx.records.by_guid(old.guid), _embed(tx, content, new, question)
    tx.records.replace(old, planned.after, planned.further)
    if place is not None and vector is not None:
        store_vector(tx, place.row, content, vector)


def _embed(
    tx: Transaction, text: str, new: NewEntry, question: EmbeddedQuestion | None
) -> EmbeddedQuestion | None:
    """Return the vector of the merged text. Raises VectorPending if the write may wait for it."""
    try:
        return embed_merged(tx, text, question)
    except VectorPending:
        if new.may_wait:
            raise
        return None


def _merge_text(old: str, new: str) -> str:
    """Return the entry's text with the new lines. A line that holds again moves to the end."""
    text = merged(old, new)
    return moved_to_end(old, new) if text == old and _is_outdated(new, old) else text


def _is_outdated(new: str, old: str) -> bool:
    """Return whether a later line of the entry contradicts the text."""
    if "\n" in new or "\n" not in old:
        return False
    return is_contradicted_later(new, [line for line in lines_of(old) if overlap(new, line)])


def _most_similar(
    tx: Transaction, new: NewEntry, question: EmbeddedQuestion | None
) -> tuple[Record | None, Similarity]:
    """Return the most similar entry of the memory, the oldest of equal ones, and its score."""
    within = Conditions({"scope": new.memory, "kind": KIND})
    fingerprint = str(question.embedder.fingerprint) if question is not None else ""
    best, similarity = None, NOT_SIMILAR
    for _, record, cosine in sorted(_candidates(tx, new, within, question), key=lambda one: one[0]):
        found = _compare(new.content, record.content, cosine, fingerprint)
        if best is None or found.score > similarity.score:
            best, similarity = record, found
    # with a threshold of 0, every entry is similar enough
    if best is None and min(new.duplicate_threshold, new.update_threshold) <= 0:
        best = next(tx.records.select(within, "asc", 1, 0), None)
    return best, similarity


def _compare(new: str, old: str, cosine: float | None, fingerprint: str) -> Similarity:
    """Compare a text with an entry, and with each of the lines that were merged into the entry.

    Only the `MOST_LINES` lines with most shared words are compared, to bound the time. A text
    above `LONGEST` characters is a duplicate only if it is equal to a line. If the cosine is not
    close, and few words are shared, the texts are not parsed.
    """
    lines = lines_of(old) if "\n" in old else ()
    if len(lines) < 2 or len(new) > LONGEST:
        far = 0.0 if cosine is None else related_score(cosine, curve_of(fingerprint))
        if far >= CLOSE_SCORE or len(new) > LONGEST or overlap(new, old):
            return compare(new, old, cosine, fingerprint)
        return NOT_SIMILAR if cosine is None else Similarity(far, "by the embedder")
    words = set(plain_tokens(new))
    nearest = nlargest(
        MOST_LINES, lines, key=lambda line: len(words.intersection(plain_tokens(line)))
    )
    near = [line for line in nearest if overlap(new, line)]
    if not near and cosine is None:
        return NOT_SIMILAR
    whole = compare(
        new, old if len(lines) > MOST_LINES else "\n".join(near or nearest[:1]), cosine, fingerprint
    )
    by_line = [compare(new, line, None, fingerprint) for line in near]
    return max([whole, *by_line], key=lambda one: one.score)


def _candidates(
    tx: Transaction, new: NewEntry, within: Conditions, question: EmbeddedQuestion | None
) -> list[tuple[int, Record, float | None]]:
    """Return (row, record, cosine) of entries with shared rare words or near vectors."""
    tx.records.complete()
    words = tx.entries.rare(
        plain_tokens(new.content), MAX_WITH_WORDS if question is None else MAX_WITH_BOTH
    )
    match = " OR ".join(f'"{word}"' for word in words)
    found = dict(tx.records.placed(match, "", within, CANDIDATES)) if words else {}
    cosines = (
        tx.ranker.nearest(within, question.vector, CANDIDATES, found)
        if question is not None
        else {}
    )
    found |= dict(_unexpired_entries(tx, [row for row in cosines if row not in found], within))
    return [(row, record, cosines.get(row)) for row, record in found.items()]


def _unexpired_entries(
    tx: Transaction, rows: Iterable[int], within: Conditions
) -> Iterator[tuple[int, Record]]:
    """Yield (row, record) for rows that are unexpired entries of the memory."""
    wanted = within.equal
    for row in rows:
        for record in tx.records.at_rows({row: 0.0}):
            is_there = (record.scope, record.kind) == (wanted["scope"], wanted["kind"])
            if is_there and not has_expired(record.expires_at, tx.records.versions.now_ms):
                yield row, record
