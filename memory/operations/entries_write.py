"""The one way in for entries of named memories (seed 004, "Write Algorithm"), under operations and
blocks.

Decision and change are in one transaction of the store's one owner, so the same text written at
once by many is one entry.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import nlargest
from typing import Any, Literal, NamedTuple

import orjson

from memrelay.memory.dedup.parser import LONGEST
from memrelay.memory.dedup.similarity import (
    DUPLICATE,
    MOST_LINES,
    RELATED,
    SAME_TEXT,
    Similarity,
    compare,
    curve_of,
    related,
)
from memrelay.memory.embedding.questions import Question
from memrelay.memory.operations.records_write import WriteInput, write
from memrelay.memory.records.data import MOST_BYTES, as_text
from memrelay.memory.records.entry_text import MOST_CHARACTERS, digest_of, lines_of, merged, overlap
from memrelay.memory.records.entry_vector import keep_vector
from memrelay.memory.records.memory_view import KIND, Action
from memrelay.memory.records.record import PLAIN, Record
from memrelay.memory.sqlite.filters import Conditions, has_expired
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.text.words import plain_tokens
from memrelay.memory.timestamps import change_ms

Mode = Literal["skip", "merge", "create", "supersede"]
# that are compared, of those with words in common, and of those with near vectors; each takes a
# third of a ms
CANDIDATES = 8
MOST_WITH_WORDS = (
    1000  # entries with the rare words of a text that are looked at for these; each takes 2 us
)
MOST_BESIDE_VECTORS = 300  # so many where near vectors say as much
CLOSE = 0.80  # by the cosine; what is less and says the same shares words
NOTHING_LIKE_IT = Similarity(0.0, "nothing like it")


class NewEntry(NamedTuple):
    """An entry to be. `now_ms` is Unix ms."""

    guid: str
    memory: str  # its id
    content: str
    now_ms: int
    source: str = "manual"
    tags: tuple[str, ...] = ()
    duplicate_threshold: float = DUPLICATE
    update_threshold: float = RELATED
    mode: Mode | None = None
    metadata: Mapping[str, Any] = {}


class Written(NamedTuple):
    """What became of it."""

    guid: str  # of the entry that holds it now
    action: Action
    likeness: Similarity


def write_entry(tx: Transaction, new: NewEntry, question: Question | None) -> Written:
    """Creates an entry, lets another grow, or finds it there. `question` is its vector, where it is
    known."""
    if new.mode == "create":
        return _create(tx, new, question, NOTHING_LIKE_IT)
    tx.records.flush()
    found = tx.entries.same(new.memory, digest_of(new.content))
    same = next(
        (guid for guid in found if tx.records.by_guid(guid) is not None), None
    )  # and has not expired
    if same is not None and new.duplicate_threshold <= SAME_TEXT.score:
        return _confirm(tx, new, same, SAME_TEXT)
    old, likeness = _likest(tx, new, question)
    decided = _decision(new, likeness.score)
    if old is None or decided == "create":
        return _create(tx, new, question, likeness)
    if decided == "skip":
        return _confirm(tx, new, old.guid, likeness)
    return _change(tx, new, old, likeness, decided) or _create(tx, new, question, likeness)


def _decision(new: NewEntry, score: float) -> Mode:
    """By the thresholds; both count from themselves on, and the higher likeness is looked at
    first."""
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


def _create(
    tx: Transaction, new: NewEntry, question: Question | None, likeness: Similarity
) -> Written:
    further = PLAIN._replace(data=as_text(dict(new.metadata))) if new.metadata else PLAIN
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
        keep_vector(tx, tx.records.last_row, new.content, question)
    return Written(new.guid, "created", likeness)


def _confirm(tx: Transaction, new: NewEntry, guid: str, likeness: Similarity) -> Written:
    tx.entries.confirm(guid, new.now_ms)
    return Written(guid, "skipped", likeness)


def _change(
    tx: Transaction, new: NewEntry, old: Record, likeness: Similarity, how: Mode
) -> Written | None:
    """The entry that was there says it now; None where it would get too long."""
    content = new.content if how == "supersede" else merged(old.content, new.content)
    if content == old.content:
        return _confirm(tx, new, old.guid, likeness)
    further = tx.records.further(old.guid)
    data = as_text((orjson.loads(further.data) if further.data else {}) | dict(new.metadata))
    if len(content) > MOST_CHARACTERS or len((data or "").encode()) > MOST_BYTES:
        return None
    tags = orjson.dumps(list(dict.fromkeys([*orjson.loads(old.tags), *new.tags]))).decode()
    source = new.source if how == "supersede" else old.source
    after = old._replace(
        content=content,
        tags=tags,
        source=source,
        score=0.0,
        updated_at=change_ms(new.now_ms, old.updated_at),
    )
    tx.records.replace(old, after, further._replace(data=data) if new.metadata else further)
    return Written(old.guid, "updated", likeness)


def _likest(
    tx: Transaction, new: NewEntry, question: Question | None
) -> tuple[Record | None, Similarity]:
    """The entry of that memory that is most like the new one, the oldest of several."""
    within = Conditions({"scope": new.memory, "kind": KIND})
    fingerprint = str(question.embedder.fingerprint) if question is not None else ""
    best, likeness = None, NOTHING_LIKE_IT
    for _, record, cosine in sorted(_candidates(tx, new, within, question), key=lambda one: one[0]):
        found = _compare(new.content, record.content, cosine, fingerprint)
        if best is None or found.score > likeness.score:
            best, likeness = record, found
    if (
        best is None and min(new.duplicate_threshold, new.update_threshold) <= 0
    ):  # then anything is like it
        best = next(tx.records.select(within, "asc", 1, 0), None)
    return best, likeness


def _compare(new: str, old: str, cosine: float | None, fingerprint: str) -> Similarity:
    """With an entry as a whole, and with the facts that were merged into it: those with most words
    in common, since thousands
    would hold up all that the store is asked meanwhile. What is too long to be read is but equal to
    one, which `alike` sees.
    What is not close by its cosine, or has none, and shares few words is not looked at any
    closer."""
    lines = lines_of(old) if "\n" in old else ()
    if len(lines) < 2 or len(new) > LONGEST:
        far = 0.0 if cosine is None else related(cosine, curve_of(fingerprint))
        if far >= CLOSE or len(new) > LONGEST or overlap(new, old):
            return compare(new, old, cosine, fingerprint)
        return NOTHING_LIKE_IT if cosine is None else Similarity(far, "by the embedder")
    words = set(plain_tokens(new))
    nearest = nlargest(
        MOST_LINES, lines, key=lambda line: len(words.intersection(plain_tokens(line)))
    )
    near = [line for line in nearest if overlap(new, line)]
    if not near and cosine is None:
        return NOTHING_LIKE_IT
    whole = compare(
        new, old if len(lines) > MOST_LINES else "\n".join(near or nearest[:1]), cosine, fingerprint
    )
    return (
        max(
            whole,
            *[compare(new, line, None, fingerprint) for line in near],
            key=lambda one: one.score,
        )
        if near
        else whole
    )


def _candidates(
    tx: Transaction, new: NewEntry, within: Conditions, question: Question | None
) -> list[tuple[int, Record, float | None]]:
    """(row, record, cosine) of entries with rare words in common, and of the nearest by their
    vectors."""
    tx.records.complete()
    words = tx.entries.rare(
        plain_tokens(new.content), MOST_WITH_WORDS if question is None else MOST_BESIDE_VECTORS
    )
    match = " OR ".join(f'"{word}"' for word in words)
    found = dict(tx.records.placed(match, "", within, CANDIDATES)) if words else {}
    cosines = (
        tx.ranker.nearest(within, question.vector, CANDIDATES, found)
        if question is not None
        else {}
    )
    found |= dict(_still_there(tx, [row for row in cosines if row not in found], within))
    return [(row, record, cosines.get(row)) for row, record in found.items()]


def _still_there(
    tx: Transaction, rows: Iterable[int], within: Conditions
) -> Iterator[tuple[int, Record]]:
    """(row, record) of those that are entries of that memory yet."""
    wanted = within.equal
    for row in rows:
        for record in tx.records.at_rows({row: 0.0}):
            is_there = (record.scope, record.kind) == (wanted["scope"], wanted["kind"])
            if is_there and not has_expired(record.expires_at, tx.records.versions.now_ms):
                yield row, record
