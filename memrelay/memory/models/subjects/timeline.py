"""records.subjects and records.timeline: who is in a store, and all records of one of them."""

from dataclasses import dataclass
from itertools import islice
from typing import Annotated

from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment
from memrelay.memory.models.subjects.table import (
    MOST_COUNTED,
    SubjectSort,
    SubjectTable,
    Wanted,
    list_arms,
)
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.paging import Cursor, Limit, parse_cursor
from memrelay.memory.records.reading import take_records
from memrelay.memory.records.view import Name, RecordView, format_optional, view

# Characters of the name of a subject. Some owners are longer than other names.
MAX_NAME_CHARACTERS = 512
AnyName = Annotated[str, Field(max_length=MAX_NAME_CHARACTERS, pattern=r"^[^\x00]*$")]
GivenSubject = Annotated[AnyName, Field(min_length=1)]
# Each kind of a subject is one part of the statement.
MOST_KINDS = 100


@dataclass(frozen=True, slots=True)
class ListSubjects:
    """The subjects to list."""

    sort: SubjectSort = "user"
    """The sort of subject. Users are owners or have a scope `user:`, agents have a scope `agent:`,
    and threads have turns or a scope `session:`."""
    beginning: AnyName = ""
    """Only names that begin with this text."""
    limit: Limit = 50
    """The maximum number of subjects."""
    after: AnyName = ""
    """Only names that come after this one: the `after` of the page before."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A user, an agent or a thread."""

    name: str
    records: int
    """The number of its records, at most 10,000."""
    has_more: bool
    """Whether it has more records."""


@dataclass(frozen=True, slots=True)
class SubjectList:
    """Subjects by name."""

    items: tuple[Subject, ...]
    after: str | None
    """The `after` of the next page; null on the last one."""


@operation("records.subjects", access="read", mutates=False)
def list_subjects(tx: Transaction, request: ListSubjects, context: Context) -> SubjectList:
    """List the users, agents or threads that the records of a store name, by name.

    Raises SearchTooLong: when the read exceeds its time limit.
    """
    table = tx.table(SubjectTable)
    with tx.bounded_search():
        names = table.names(request.sort, request.beginning, request.after)
        page = list(islice(names, request.limit + 1))
        items = []
        for name in page[: request.limit]:
            arms = [arm for arm in list_arms(request.sort, name) if arm.column != "source"]
            count = table.count(arms)
            items.append(Subject(name, min(count, MOST_COUNTED), count > MOST_COUNTED))
    return SubjectList(tuple(items), items[-1].name if len(page) > request.limit else None)


@dataclass(frozen=True, slots=True)
class ReadTimeline:
    """The subject, and the page."""

    name: GivenSubject
    """The name of the user, agent or thread."""
    sort: SubjectSort = "user"
    """The sort of subject."""
    kind: Name = ""
    """Only records of this kind."""
    limit: Limit = 50
    """The maximum number of records. A page of long records may have fewer."""
    cursor: Cursor = ""
    """The `next_cursor` of the previous page, or the `cursor` of a record."""


@dataclass(frozen=True, slots=True)
class TimelineRecord:
    """A record of a subject."""

    record: RecordView
    """The record."""
    cursor: str
    """Continues after this record."""


@dataclass(frozen=True, slots=True)
class KindCount:
    """The number of records of a kind."""

    kind: str
    records: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """Records of a subject, the newest first. Later pages have no counts and times."""

    items: tuple[TimelineRecord, ...]
    next_cursor: str | None
    """The cursor of the next page; null on the last page. A page of an agent may be empty before
    it."""
    kinds: tuple[KindCount, ...]
    """The number of records of each kind."""
    first_at: Moment | None
    """The time of the first record."""
    last_at: Moment | None
    """The time of the newest record."""
    is_whole: bool
    """Whether the counts and times cover the whole store: false for an agent with more records
    before the 50,000 newest ones."""


@operation("records.timeline", access="read", mutates=False)
def read_timeline(tx: Transaction, request: ReadTimeline, context: Context) -> Timeline:
    """Return all records of a user, an agent or a thread, the newest first, in pages.

    They include the memory of agents. Records of a user have it as owner or the scope
    `user:NAME`; those of a thread are its turns and have the scope `session:NAME`; those of an
    agent have it as source or the scope `agent:NAME`, among 50,000 records for each page.

    Raises Refused: when the cursor is invalid.
    Raises SearchTooLong: when the read exceeds its time limit.
    """
    table, beyond = tx.table(SubjectTable), parse_cursor(request.cursor)
    arms, window = list_arms(request.sort, request.name), table.window(request.sort, beyond)
    with tx.bounded_search():
        counted = arms if beyond is None else [arm for arm in arms if arm.has_kinds]
        summary = table.summarize(counted, window)
        wanted = Wanted(request.kind, tuple(summary.counts)[:MOST_KINDS])
        rows = list(table.page(arms, wanted, window, request.limit + 1))
        records, cursor = take_records(rows, request.limit, context)
        items = [
            TimelineRecord(view(record, extras), str(row))
            for (row, *_), (record, extras) in zip(rows, records, strict=False)
        ]
    next_cursor = cursor or (str(window.floor + 1) if window.floor else None)
    is_whole = window.floor == 0
    if beyond is not None:
        return Timeline(tuple(items), next_cursor, (), None, None, is_whole)
    kinds = tuple(KindCount(kind, count) for kind, count in sorted(summary.counts.items()))
    ends = (format_optional(summary.first_ms), format_optional(summary.last_ms))
    return Timeline(tuple(items), next_cursor, kinds, *ends, is_whole)
