"""Entries of named memories, which are deduplicated when they are written (docs/memories.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import orjson
from pydantic import Field

from memrelay.memory.engine.feed import SKIPPED
from memrelay.memory.engine.filter_sql import Conditions, compiled
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import next_change_ms
from memrelay.memory.engine.versions import State
from memrelay.memory.errors import RecordNotFound, Refused, VectorPending
from memrelay.memory.models.named_memories.candidates import (
    NOT_SIMILAR,
    compare_lines,
    find_candidates,
)
from memrelay.memory.models.named_memories.dedup.similarity import (
    DUPLICATE,
    RELATED,
    SAME_BUT_FORM,
    SAME_TEXT,
    Similarity,
    compare,
    contradicts,
    is_contradicted_later,
)
from memrelay.memory.models.named_memories.entry_text import (
    MAX_ENTRY_CHARACTERS,
    embed_merged,
    find_cached_vector,
    make_digest,
    merged,
    moved_to_end,
    split_lines,
    store_vector,
)
from memrelay.memory.models.named_memories.memories import (
    KIND,
    Action,
    CreateMemory,
    EntryContent,
    EntryView,
    Globs,
    Ident,
    MaybeIdent,
    MaybeMemory,
    Source,
    TagList,
    WrittenEntry,
    add_memory,
    entry_fields,
    fetch_memory,
    find_memory,
    tags_json,
)
from memrelay.memory.models.named_memories.table import Confirmed, EntryTable, MemoryTable
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import MOST_BYTES, Data, as_text
from memrelay.memory.records.deletion import DeleteInput, delete
from memrelay.memory.records.filters import Filter
from memrelay.memory.records.ids import guid_of, uid_of
from memrelay.memory.records.optimistic_locking import check_version
from memrelay.memory.records.paging import Cursor, Limit, Offset, parse_cursor
from memrelay.memory.records.reading import fetch, take_records
from memrelay.memory.records.record import PLAIN, Record, RecordExtras
from memrelay.memory.records.view import (
    End,
    Reason,
    TimeOrNull,
    Versions,
    time_ms,
    with_period,
)
from memrelay.memory.records.writing import WriteInput, write
from memrelay.memory.search.embedding.questions import EmbeddedQuestion

Mode = Literal["skip", "merge", "create", "supersede", "current"]
# The mode of /v1, the command line, Python and MCP if a caller names none.
FACE_MODE: Mode = "current"
MOST_CONTRADICTED = 64  # lines that are looked at for a contradiction
KEEP_BOTH = (
    "`replaced` holds the texts that the new one replaced; the history keeps them. "
    "If both are true, write the old text again with the mode `create`"
)
Threshold = Annotated[float, Field(ge=0, le=2)]  # no score is above 1


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
    valid_from: int | None = None  # Unix ms, None if not given
    valid_to: int | None = None


class PlannedWrite(NamedTuple):
    """The effect that a write will have: `after` is the entry that then holds the text.

    `old` is the existing entry; None if the write creates one. `replaced` are its texts that the
    new one replaces.
    """

    action: Action
    similarity: Similarity
    old: Record | None
    after: Record
    extras: RecordExtras
    replaced: tuple[str, ...] = ()


class WriteResult(NamedTuple):
    """The result of a write: the entry that now holds the text."""

    guid: str
    action: Action
    similarity: Similarity
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateEntry:
    """An entry to write, and the rules of its deduplication."""

    memory_id: MaybeIdent = ""
    """The memory to write to, by its id; "" if `memory` names it."""
    content: EntryContent
    """The fact or observation."""
    source: Source = "manual"
    """The origin of the entry."""
    tags: TagList = ()
    """Tags for filters."""
    metadata: Data | None = None
    """More data: a JSON object of at most 64 KiB. An updated entry receives its new keys."""
    duplicate_threshold: Threshold = DUPLICATE
    """The similarity from which on the entry is skipped as a duplicate.

    Above 1, only an equal text is skipped.
    """
    update_threshold: Threshold = RELATED
    """The similarity from which on the text is added to an existing entry. Above 1: never."""
    mode: Mode | None = None
    """How to treat similar entries.

    `current` replaces what the text contradicts, and the history keeps it. Without a contradiction,
    and with null, the thresholds decide, and related texts are appended. `skip` never updates an
    entry. `merge` also updates an entry that is a duplicate. `supersede` replaces the overlapping
    text of an entry. `create` compares nothing.
    """
    memory: MaybeMemory = ""
    """The name or id of the memory to write to. An unknown name creates a memory.

    Use it instead of `memory_id`. If several memories have the name, the oldest is used.
    """
    dry_run: bool = False
    """Return what the write would do, and write nothing.

    The answer has the entry as the write would leave it. Its `id` and `version` are "" if the write
    would create it, and `memory_id` is "" if the write would create the memory. An idempotency
    key has no effect.
    """
    valid_from: TimeOrNull = ""
    """The time from which on the content is true.

    By default any, or the time of the write if the text replaces all of an entry.
    """
    valid_to: TimeOrNull = ""
    """The time at which the content stops being true; by default open.

    Only entries with the same `valid_to` are compared, and a text with a `valid_from` is not added
    to an entry with another one.
    """


@operation(
    "entries.create",
    access="write",
    mutates=True,
    store="memories",
    embeds="content",
    face_defaults={"mode": FACE_MODE},
)
def create_entry(tx: Transaction, new: CreateEntry, context: Context) -> WrittenEntry:
    """Write an entry: create it, update a similar entry, or skip it as a duplicate.

    Raises Refused: when the input names no memory, or two, or the period of validity is invalid.
    Raises RecordNotFound: when no memory has the id.
    Raises VectorPending: when the vector of a merged text is not computed yet.
    """
    memory, question = _find_memory(tx, new), find_cached_vector(tx, new.content)
    # The first guid is the entry's: it is reserved for a write that waits for review.
    guid = "" if new.dry_run else context.new_guid()
    if new.dry_run:
        entry = _new_entry(new, memory, guid, context)
        planned = plan_write(tx, entry, question) if memory else plan_creation(entry)
        return view_planned_entry(tx, planned, context.now_ms)
    if not memory:
        memory = add_memory(tx, CreateMemory(new.memory), context.new_guid(), context.now_ms).id
    return view_written_entry(tx, write_entry(tx, _new_entry(new, memory, guid, context), question))


def _find_memory(tx: Transaction, new: CreateEntry) -> str:
    """Return the id of the memory that the input names, "" if the write creates it.

    Raises Refused and RecordNotFound.
    """
    if bool(new.memory_id) == bool(new.memory):
        raise Refused("name one memory: set either `memory_id`, or `memory` to its name or id")
    if new.memory_id:
        return fetch_memory(tx, new.memory_id).id
    memory = find_memory(tx, new.memory)
    if memory is not None:
        return memory.id
    return fetch_memory(tx, new.memory).id if uid_of("mem", new.memory) else ""


def _new_entry(new: CreateEntry, memory: str, guid: str, context: Context) -> NewEntry:
    """Return the entry for the memory with this id. A dry run needs no guid. Raises Refused."""
    period = with_period(PLAIN, new.valid_from, new.valid_to)
    return NewEntry(
        guid,
        memory,
        new.content,
        context.now_ms,
        new.source,
        tuple(dict.fromkeys(new.tags)),
        new.duplicate_threshold,
        new.update_threshold,
        new.mode,
        new.metadata or {},
        context.may_wait,
        valid_from=period.valid_from,
        valid_to=period.valid_to,
    )


def view_written_entry(tx: Transaction, written: WriteResult) -> WrittenEntry:
    """Return the written entry with the action and the score of the comparison."""
    record, extras = fetch(tx, written.guid)
    confirmed = tx.table(EntryTable).confirmed(written.guid)
    fields = entry_fields(record, extras, tx.memory_id, confirmed)
    return _view(fields, written.action, written.similarity, written.replaced)


def view_planned_entry(tx: Transaction, planned: PlannedWrite, now_ms: int) -> WrittenEntry:
    """Return the entry as the write would leave it at `now_ms`, Unix ms."""
    confirmed = tx.table(EntryTable).confirmed(planned.after.guid)
    if planned.action == "skipped":
        confirmed = Confirmed(confirmed.times + 1, now_ms)
    fields = entry_fields(planned.after, planned.extras, tx.memory_id, confirmed)
    if planned.old is None:
        fields |= {"id": "", "version": ""}
    return _view(fields, planned.action, planned.similarity, planned.replaced)


def _view(
    fields: dict[str, Any], action: Action, similarity: Similarity, replaced: tuple[str, ...]
) -> WrittenEntry:
    return WrittenEntry(
        **fields,
        action=action,
        score=round(similarity.score, 4),
        why=similarity.why,
        replaced=replaced,
        hint=KEEP_BOTH if replaced else "",
    )


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
    planned = _plan_by_comparison(tx, new, question)
    period = planned.extras.valid_from, planned.extras.valid_to
    begin = period[0] if new.valid_from is None else new.valid_from
    # An entry has one period for its whole text.
    return planned if period == (begin, new.valid_to) else plan_creation(new, planned.similarity)


def _plan_by_comparison(
    tx: Transaction, new: NewEntry, question: EmbeddedQuestion | None
) -> PlannedWrite:
    guids = tx.table(EntryTable).same(new.memory, make_digest(new.content))
    guids = [guid for guid in guids if _ends_alike(tx, new, guid)]
    unexpired = (_find_record(tx, guid) for guid in guids)
    same = next((record for record in unexpired if record is not None), None)
    if same is not None:
        is_written_so = new.content in (same.content, *same.content.split("\n"))
        return _plan_repeat(tx, new, same, SAME_TEXT if is_written_so else SAME_BUT_FORM)
    candidates = _compare_candidates(tx, new, question)
    old, similarity = _most_similar(tx, new, candidates)
    if new.mode == "current" and similarity.score < new.duplicate_threshold:
        planned = _plan_correction(tx, new, candidates)
        if planned is not None:
            return planned
    decided = _decide(new, similarity.score)
    if old is None or decided == "create":
        return plan_creation(new, similarity)
    if decided == "skip":
        return _plan_repeat(tx, new, old, similarity)
    if decided == "supersede":
        planned = _plan_replacement(tx, new, old, similarity, _overlapping(new, old))
    else:
        planned = _plan_update(tx, new, old, similarity)
    return planned or plan_creation(new, similarity)


def _ends_alike(tx: Transaction, new: NewEntry, guid: str) -> bool:
    """Return whether an entry has the `valid_to` of the new one."""
    if not tx.records.has_periods:
        return new.valid_to is None
    return tx.records.extras(guid).valid_to == new.valid_to


def plan_creation(new: NewEntry, similarity: Similarity = NOT_SIMILAR) -> PlannedWrite:
    """Plan a new entry. `similarity` is that of the most similar entry."""
    extras = PLAIN._replace(data=as_text(dict(new.metadata))) if new.metadata else PLAIN
    if (new.valid_from, new.valid_to) != (None, None):
        extras = extras._replace(valid_from=new.valid_from, valid_to=new.valid_to)
    tags = orjson.dumps(new.tags).decode()
    after = Record(
        new.guid, new.memory, KIND, new.content, new.source, tags, new.now_ms, new.now_ms
    )
    return PlannedWrite("created", similarity, None, after, extras)


def apply_write(
    tx: Transaction, new: NewEntry, planned: PlannedWrite, question: EmbeddedQuestion | None
) -> WriteResult:
    """Carry out a planned write in the transaction that planned it.

    Raises VectorPending: a retry finds the vector of the merged text. Nothing was changed.
    """
    if planned.old is None:
        _create(tx, new, planned.extras, question)
    elif planned.action == "updated":
        _update(tx, new, planned.old, planned, question)
    elif new.confirms:
        tx.table(EntryTable).confirm(planned.old.guid, new.now_ms)
        tx.records.announce(SKIPPED, planned.old.guid)
    return WriteResult(planned.after.guid, planned.action, planned.similarity, planned.replaced)


def _create(
    tx: Transaction, new: NewEntry, extras: RecordExtras, question: EmbeddedQuestion | None
) -> None:
    record = WriteInput(
        new.guid, new.memory, KIND, new.content, new.source, new.tags, new.now_ms, extras=extras
    )
    write(tx, record)
    tx.records.flush()
    tx.table(EntryTable).digest(new.memory)
    if question is not None:
        store_vector(tx, tx.records.last_row, new.content, question)


def _update(
    tx: Transaction,
    new: NewEntry,
    old: Record,
    planned: PlannedWrite,
    question: EmbeddedQuestion | None,
) -> None:
    stored = tx.records.by_guid(old.guid)
    assert stored is not None  # the plan read it
    try:
        vector = embed_merged(tx, stored.row, old.content, planned.after.content, question)
    except VectorPending:
        if new.may_wait:
            raise
        vector = None
    tx.records.replace(old, planned.after, planned.extras, event="entry.merged")
    _store_new_vector(tx, planned.after, planned.extras, vector)


def _store_new_vector(
    tx: Transaction, record: Record, extras: RecordExtras, vector: EmbeddedQuestion | None
) -> None:
    """Store the vector of a changed text.

    A record with a thread gets it later, from the text with its speaker (`embedded_text`).
    """
    stored = tx.records.by_guid(record.guid)
    if stored is not None and vector is not None and extras.thread is None:
        store_vector(tx, stored.row, record.content, vector)


def _plan_repeat(
    tx: Transaction, new: NewEntry, old: Record, similarity: Similarity
) -> PlannedWrite:
    """Confirm an entry that states the text, or restore the text if a later line contradicts it.

    The modes `current` and `supersede` also take away the lines that the text contradicts.
    """
    if new.mode in ("current", "supersede"):
        contradicted = _contradicted_lines(new.content, split_lines(old.content))
        if contradicted and len(contradicted) < len(split_lines(old.content)):
            planned = _plan_replacement(tx, new, old, similarity, contradicted)
            if planned is not None:
                return planned
    if new.mode != "skip" and _is_outdated(new.content, old.content):
        similarity = similarity._replace(why=f"{similarity.why}, but a later line contradicts it")
        planned = _plan_update(tx, new, old, similarity)
        if planned is not None:
            return planned
    return PlannedWrite("skipped", similarity, old, old, tx.records.extras(old.guid))


def _plan_update(
    tx: Transaction, new: NewEntry, old: Record, similarity: Similarity
) -> PlannedWrite | None:
    """Add the text to the existing entry; returns None if it would exceed the size limits."""
    content = merged(old.content, new.content)
    if content == old.content and _is_outdated(new.content, old.content):
        # A line that holds again moves to the end.
        content = moved_to_end(old.content, new.content)
    if content == old.content:
        return PlannedWrite("skipped", similarity, old, old, tx.records.extras(old.guid))
    return _plan_change(tx, new, old, similarity, content)


def _plan_correction(
    tx: Transaction, new: NewEntry, candidates: list[tuple[Record, Similarity]]
) -> PlannedWrite | None:
    """Replace what the text contradicts, in the entry that changed last; None if there is none."""
    room, found = MOST_CONTRADICTED, list[tuple[Record, Similarity, list[str]]]()
    for old, similarity in sorted(candidates, key=lambda one: -one[1].score):
        lines = split_lines(old.content)[-room:] if room else []
        room -= len(lines)
        if contradicted := _contradicted_lines(new.content, lines):
            found.append((old, similarity, contradicted))
    if not found:
        return None
    old, similarity, contradicted = max(found, key=lambda one: one[0].updated_at)
    return _plan_replacement(tx, new, old, similarity, contradicted)


def _contradicted_lines(new: str, lines: Sequence[str]) -> list[str]:
    """Return the lines that a text of one line contradicts."""
    return [] if "\n" in new else [line for line in lines if contradicts(new, line)]


def _overlapping(new: NewEntry, old: Record) -> list[str]:
    """Return the lines of an entry that overlap with the text, or all if none does by itself."""
    lines = split_lines(old.content)
    if len(lines) < 2 or "\n" in new.content:
        return lines
    overlapping = [
        line
        for line in lines[-MOST_CONTRADICTED:]
        if contradicts(new.content, line)
        or compare(new.content, line, None, "").score >= new.update_threshold
    ]
    return overlapping or lines


def _plan_replacement(
    tx: Transaction, new: NewEntry, old: Record, similarity: Similarity, replaced: Sequence[str]
) -> PlannedWrite | None:
    """Put the text in the place of lines of an entry; returns None if it would be too large."""
    rest = [line for line in split_lines(old.content) if line not in replaced]
    content = moved_to_end("\n".join(rest), new.content) if rest else new.content
    if content == old.content:
        return PlannedWrite("skipped", similarity, old, old, tx.records.extras(old.guid))
    planned = _plan_change(tx, new, old, similarity, content)
    if planned is None:
        return None
    if rest:
        return planned._replace(replaced=tuple(replaced))
    extras = planned.extras
    if new.valid_from is not None or new.valid_to is None:
        begin = new.now_ms if new.valid_from is None else new.valid_from
        extras = extras._replace(valid_from=begin)
    after = planned.after._replace(source=new.source)
    return planned._replace(after=after, extras=extras, replaced=tuple(replaced))


def _plan_change(
    tx: Transaction, new: NewEntry, old: Record, similarity: Similarity, content: str
) -> PlannedWrite | None:
    """Plan the entry with another text; returns None if it would exceed the size limits."""
    extras = tx.records.extras(old.guid)
    data = as_text((orjson.loads(extras.data) if extras.data else {}) | dict(new.metadata))
    if len(content) > MAX_ENTRY_CHARACTERS or len((data or "").encode()) > MOST_BYTES:
        return None
    tags = orjson.dumps(list(dict.fromkeys([*orjson.loads(old.tags), *new.tags]))).decode()
    after = old._replace(
        content=content,
        tags=tags,
        score=0.0,
        updated_at=next_change_ms(new.now_ms, old.updated_at),
    )
    extras = extras._replace(data=data) if new.metadata else extras
    return PlannedWrite("updated", similarity, old, after, extras)


def _is_outdated(new: str, old: str) -> bool:
    """Return whether a later line of the entry contradicts the text."""
    if "\n" in new or "\n" not in old:
        return False
    return is_contradicted_later(new, split_lines(old))


def _decide(new: NewEntry, score: float) -> Mode:
    """Decide by the thresholds, which are inclusive. The duplicate threshold comes first."""
    is_duplicate, overlaps = score >= new.duplicate_threshold, score >= new.update_threshold
    if is_duplicate and new.mode != "merge":
        return "skip"
    if new.mode == "skip" or not (is_duplicate or overlaps):
        return "create"
    return "supersede" if new.mode == "supersede" else "merge"


def _compare_candidates(
    tx: Transaction, new: NewEntry, question: EmbeddedQuestion | None
) -> list[tuple[Record, Similarity]]:
    """Return the entries of the memory that may be similar, the oldest first, and their scores."""
    fingerprint = str(question.embedder.fingerprint) if question is not None else ""
    vector = None if question is None else question.vector
    candidates = find_candidates(tx, new.memory, new.content, vector)
    return [
        (record, compare_lines(new.content, record.content, cosine, fingerprint))
        for _, record, cosine in sorted(candidates, key=lambda one: one[0])
        if _ends_alike(tx, new, record.guid)
    ]


def _most_similar(
    tx: Transaction, new: NewEntry, candidates: list[tuple[Record, Similarity]]
) -> tuple[Record | None, Similarity]:
    """Return the most similar entry of the memory, the oldest of equal ones, and its score."""
    if candidates:
        return max(candidates, key=lambda one: one[1].score)
    # with a threshold of 0, every entry is similar enough
    if min(new.duplicate_threshold, new.update_threshold) <= 0:
        within = Conditions({"scope": new.memory, "kind": KIND})
        return next(tx.records.select(within, "asc", 1, 0), None), NOT_SIMILAR
    return None, NOT_SIMILAR


@dataclass(frozen=True, slots=True)
class GetEntry:
    """The entry to read."""

    id: Ident
    """The id of the entry."""
    memory_id: MaybeIdent = ""
    """The memory that must contain the entry."""


@operation("entries.get", access="read", mutates=False, store="memories", takes_as_of=True)
def get_entry(tx: Transaction, request: GetEntry, context: Context) -> EntryView:
    """Return one entry.

    Raises RecordNotFound: when the entry does not exist, or belongs to another memory.
    """
    return entry_view(tx, fetch_entry(tx, request.id, request.memory_id))


def fetch_entry(tx: Transaction, ident: str, memory: str = "") -> Record:
    """Return the stored record of an entry. Raises RecordNotFound."""
    if memory:
        fetch_memory(tx, memory)
    guid = guid_of("me", tx.memory_id, ident)
    record = _find_record(tx, guid) if guid else None
    is_entry = record is not None and record.kind == KIND and memory in ("", record.scope)
    if record is None or not is_entry or tx.table(MemoryTable).find(record.scope) is None:
        where = f" in {memory[:128]}" if memory else ""
        raise RecordNotFound(
            f"Memory entry not found: no entry has the id {ident[:128]!r}{where}; "
            "entries.list lists them"
        )
    return record


def _find_record(tx: Transaction, guid: str) -> Record | None:
    """Return the record with that guid, None if there is none or it has expired."""
    return next(tx.records.select(Conditions({"guid": guid}), "asc", 1, 0), None)


def entry_view(tx: Transaction, record: Record) -> EntryView:
    """Return the entry as operations report it."""
    extras, confirmed = tx.records.extras(record.guid), tx.table(EntryTable).confirmed(record.guid)
    return EntryView(**entry_fields(record, extras, tx.memory_id, confirmed))


def view_stored_entry(tx: Transaction, state: State) -> EntryView:
    """Return a stored entry as operations report it."""
    return entry_view(tx, state.record)


@dataclass(frozen=True, slots=True)
class ListEntries:
    """The entries to list, and the page."""

    memory_id: Ident
    """The memory to list."""
    tags: Globs = ()
    """Only entries with a tag that matches one of these; `*` is any text, `?` one character."""
    source: Source | None = None
    """Only entries from this origin."""
    filter: Filter | None = None
    """Only entries that pass this filter (docs/filters.md); `data` is the metadata of an entry."""
    order: Literal["asc", "desc"] = "asc"
    """Oldest first, or newest first."""
    limit: Limit = 50
    """The maximum number of entries. A page of long entries may have fewer."""
    cursor: Cursor = ""
    """The `next_cursor` of the previous page."""
    offset: Offset = 0
    """The number of entries to skip. Unlike a cursor, it shifts when others write."""
    valid_at: TimeOrNull = ""
    """Only entries that are valid at this time: from `valid_from` until before `valid_to`."""

    @property
    def conditions(self) -> Conditions:
        """The conditions that are set. Raises Refused if `valid_at` is no time."""
        source = {"source": self.source} if self.source is not None else {}
        return Conditions(
            {"scope": self.memory_id, "kind": KIND} | source,
            globs=self.tags,
            given=compiled(self.filter),
            valid_at_ms=time_ms("valid_at", self.valid_at),
        )


@dataclass(frozen=True, slots=True)
class EntryPage:
    """A page of entries."""

    items: tuple[EntryView, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page."""
    total: int
    """The number of entries on all pages."""


@operation("entries.list", access="read", mutates=False, store="memories", takes_as_of=True)
def list_entries(tx: Transaction, request: ListEntries, context: Context) -> EntryPage:
    """List the entries of a named memory, optionally by tags, source and filter, in pages.

    Raises RecordNotFound: when the memory does not exist.
    Raises Refused: when the cursor or `valid_at` is invalid.
    """
    fetch_memory(tx, request.memory_id)
    conditions, beyond = request.conditions, parse_cursor(request.cursor)
    rows = tx.records.page(
        conditions, request.order, beyond, request.limit + 1, offset=request.offset
    )
    records, cursor = take_records(rows, request.limit, context)
    items = tuple(entry_view(tx, record) for record, _ in records)
    return EntryPage(items, cursor, tx.records.count(conditions))


@dataclass(frozen=True, slots=True)
class UpdateEntry:
    """The changes of an entry. Omitted fields keep their values."""

    id: Ident
    """The id of the entry."""
    memory_id: MaybeIdent = ""
    """The memory that must contain the entry."""
    content: EntryContent | None = None
    """The new text."""
    tags: TagList | None = None
    """The new tags; they replace all present tags."""
    metadata: Data | None = None
    """The new metadata object; it replaces the present one."""
    if_version: Versions = ()
    """Change only if the entry has one of these versions."""
    reason: Reason = ""
    """The reason, kept in the history."""
    valid_from: End | None = None
    """The new time from which on the content is true; "" means any."""
    valid_to: End | None = None
    """The new time at which the content stops being true; "" means open."""


@operation("entries.update", access="write", mutates=True, store="memories", embeds="content")
def update_entry(tx: Transaction, change: UpdateEntry, context: Context) -> EntryView:
    """Change the given fields of an entry, without deduplication.

    Raises RecordNotFound: when the entry does not exist in the memory.
    Raises VersionConflict: when the entry has another version.
    Raises Refused: when the period of validity is invalid.
    """
    before = fetch_entry(tx, change.id, change.memory_id)
    extras_before = tx.records.extras(before.guid)
    check_version(before, extras_before, change.if_version)
    after, extras = before, extras_before
    if change.content is not None:
        after = after._replace(content=change.content)
    if change.tags is not None:
        after = after._replace(tags=tags_json(change.tags) or "")
    if change.metadata is not None:
        extras = extras._replace(data=as_text(change.metadata))
    extras = with_period(extras, change.valid_from, change.valid_to)
    if (after, extras) != (before, extras_before):
        after = after._replace(updated_at=next_change_ms(context.now_ms, before.updated_at))
        tx.records.replace(before, after, extras)
        if after.content != before.content:
            _store_new_vector(tx, after, extras, find_cached_vector(tx, after.content))
    return entry_view(tx, after)


@dataclass(frozen=True, slots=True)
class DeleteEntry:
    """The entry to delete."""

    id: Ident
    """The id of the entry."""
    memory_id: MaybeIdent = ""
    """The memory that must contain the entry."""
    if_version: Versions = ()
    """Delete only if the entry has one of these versions."""
    reason: Reason = ""
    """The reason, kept in the history."""


@operation("entries.delete", access="delete", mutates=True, store="memories")
def delete_entry(tx: Transaction, request: DeleteEntry, context: Context) -> None:
    """Delete one entry.

    Raises RecordNotFound: when the entry does not exist in the memory.
    Raises VersionConflict: when the entry has another version.
    """
    entry = fetch_entry(tx, request.id, request.memory_id)
    check_version(entry, tx.records.extras(entry.guid), request.if_version)
    delete(tx, DeleteInput(entry.guid))


@dataclass(frozen=True, slots=True)
class MergeEntries:
    """Two entries of one memory that become one."""

    id: Ident
    """The id of the entry that stays. Its text does not change."""
    other_id: Ident
    """The id of the entry that is deleted."""
    memory_id: MaybeIdent = ""
    """The memory that must contain both entries."""
    is_outdated: bool = False
    """Take over nothing from the other entry, because its text is no longer true."""
    if_version: Versions = ()
    """Merge only if the entry that stays has one of these versions."""
    if_other_version: Versions = ()
    """Merge only if the other entry has one of these versions."""
    reason: Reason = ""
    """The reason, kept in the history."""


@operation("entries.merge", access="delete", mutates=True, store="memories")
def merge_entries(tx: Transaction, request: MergeEntries, context: Context) -> EntryView:
    """Delete an entry, and give its tags, metadata and confirmations to another one.

    Metadata of the entry that stays has precedence.

    Raises RecordNotFound: when one of the entries does not exist in the memory.
    Raises VersionConflict: when one of them has another version.
    Raises Refused: when both ids are of one entry, the entries are in two memories, or the metadata
    would exceed 64 KiB.
    """
    kept = fetch_entry(tx, request.id, request.memory_id)
    other = fetch_entry(tx, request.other_id, request.memory_id)
    if kept.guid == other.guid or kept.scope != other.scope:
        raise Refused("`id` and `other_id` must name two entries of one memory")
    extras, other_extras = tx.records.extras(kept.guid), tx.records.extras(other.guid)
    check_version(kept, extras, request.if_version)
    check_version(other, other_extras, request.if_other_version)
    if not request.is_outdated:
        kept = _take_over(tx, (kept, extras), (other, other_extras), context)
    delete(tx, DeleteInput(other.guid))
    return entry_view(tx, kept)


def plan_merge(
    kept: tuple[Record, RecordExtras], other: tuple[Record, RecordExtras]
) -> tuple[Record, RecordExtras]:
    """Return an entry with the tags and the metadata of another one. Raises Refused."""
    (record, extras), (gone, gone_extras) = kept, other
    tags = dict.fromkeys([*orjson.loads(record.tags), *orjson.loads(gone.tags)])
    data = orjson.loads(gone_extras.data or "{}") | orjson.loads(extras.data or "{}")
    if len(tags) > len(orjson.loads(record.tags)):
        record = record._replace(tags=orjson.dumps(list(tags)).decode())
    if data != orjson.loads(extras.data or "{}"):
        extras = extras._replace(data=as_text(data))
    if len((extras.data or "").encode()) > MOST_BYTES:
        raise Refused(f"the metadata of both entries exceeds {MOST_BYTES} bytes; shorten one")
    return record, extras


def _take_over(
    tx: Transaction,
    kept: tuple[Record, RecordExtras],
    other: tuple[Record, RecordExtras],
    context: Context,
) -> Record:
    """Give an entry the tags, metadata and confirmations of another one, and return it."""
    before, (after, extras) = kept[0], plan_merge(kept, other)
    if (after, extras) != kept:
        after = after._replace(updated_at=next_change_ms(context.now_ms, before.updated_at))
        tx.records.replace(before, after, extras, event="entry.merged")
    tx.records.flush()
    table = tx.table(EntryTable)
    table.digest(before.scope)
    table.add_confirmations(other[0].guid, before.guid)
    return after
