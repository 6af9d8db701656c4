"""The operations that read proposals. No other operation reads them."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import Field

from memrelay.memory.engine.appends import SEAM
from memrelay.memory.engine.memory_id import is_closed
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import RecordNotFound, Refused
from memrelay.memory.models.reviews.proposing import Candidate, show_input
from memrelay.memory.models.reviews.table import Proposal, ProposalTable
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.paging import Cursor, Limit, parse_cursor, take_page
from memrelay.memory.records.view import Guid, Name, version_of
from memrelay.memory.records.word_diff import compare_words
from memrelay.memory.search.search import SearchRecords, search_records

Status = Literal["pending", "approved", "rejected"]
PENDING: Final = "pending"
PolicyName = Annotated[str, Field(max_length=100)]
# Records that resemble a proposal, and the characters of it that are searched for.
MOST_NEAR, NEAR_CHARACTERS = 5, 1000
# Characters that are shown of a second record.
SHOWN_CHARACTERS = 4000
VERSION_DIGITS = 16


@dataclass(frozen=True, slots=True)
class ListReviews:
    """The proposals to list."""

    status: Status = PENDING
    """`pending`, the oldest first, or the decision of the proposals, the newest first."""
    policy: PolicyName = ""
    """Only those that this policy holds."""
    source: Name = ""
    """Only those of this source."""
    limit: Limit = 100
    """The maximum number of proposals."""
    cursor: Cursor = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class ProposalView:
    """A write that a policy holds for review, or the decision on it."""

    guid: str
    """The guid of the proposal, and of the record if the write creates one."""
    status: Status
    policy: str
    """The policy that holds it."""
    operation: str
    actor: str
    """The writer."""
    origin: dict[str, str]
    """Its origin, as far as known: `pipeline`, `message` (the id of the input), `sender`,
    `profile`, `verdict`, `key`, `agent` and `model`."""
    source: str
    target: str | None
    """The guid of the record that it would change; null if it creates one."""
    candidate: Candidate | None
    """The record as it would be; null after a decision."""
    at: Moment
    ends_at: Moment
    """When it ends without a decision; after a decision, when that is forgotten."""
    version: str
    """Changes with each edit; pass it to reviews.approve. Empty after a decision."""
    edited_by: str | None
    """The last editor of the content; null for none."""
    decided_by: str | None
    decided_at: Moment | None
    reason: str
    """The reason of the decision."""
    result: dict[str, Any]
    """The ids of what was written."""


@dataclass(frozen=True, slots=True)
class ReviewList:
    """A page of proposals."""

    items: tuple[ProposalView, ...]
    next_cursor: str | None


@operation("reviews.list", access="review", mutates=False)
def list_reviews(tx: Transaction, request: ListReviews, context: Context) -> ReviewList:
    """List the writes that wait for review, or those that were decided.

    Raises Refused: for an invalid cursor.
    """
    after = parse_cursor(request.cursor) or 0
    decision = "" if request.status == PENDING else request.status
    filters = {"policy": request.policy, "source": request.source}
    rows = tx.table(ProposalTable).page(decision, filters, after, request.limit + 1)
    found = ((row.n, show(row)) for row in rows)
    items, has_more = take_page(found, request.limit, context.result_bytes)
    return ReviewList(tuple(one for _, one in items), str(items[-1][0]) if has_more else None)


@dataclass(frozen=True, slots=True)
class GetReview:
    """The proposal to read."""

    guid: Guid
    """The guid of the proposal."""


@dataclass(frozen=True, slots=True)
class DiffPiece:
    """A part of a comparison by words."""

    kind: Literal["same", "deleted", "added", "gap"]
    text: str
    """The text; of a gap the number of words that are left out."""


@dataclass(frozen=True, slots=True)
class NearRecord:
    """A record of the store that resembles a proposal."""

    guid: str
    content: str
    """The beginning of its text."""
    score: float


@dataclass(frozen=True, slots=True)
class OtherRecord:
    """A second record of a proposal, which the call deletes."""

    guid: str
    content: str
    """The beginning of its text; "" if it is gone."""


@dataclass(frozen=True, slots=True)
class Review:
    """A proposal with what a reviewer needs to decide."""

    proposal: ProposalView
    input: dict[str, Any]
    """The input of the operation. Empty if the text is hidden, and after a decision."""
    text: str | None
    """The text that an edit changes: the content, or the text to append. null for none."""
    has_changed: bool
    """Whether that record, or `other`, has changed or is gone since the write."""
    diff: tuple[DiffPiece, ...] | None
    """The changes by words; null for a new record, and for texts that are too long."""
    near: tuple[NearRecord, ...]
    """Records that resemble it, the most similar first."""
    other: OtherRecord | None = None
    """The second record of the proposal, null for none."""


@operation("reviews.get", access="review", mutates=False)
def get_review(tx: Transaction, request: GetReview, context: Context) -> Review:
    """Return a proposal, with the changes by words and similar records.

    Raises RecordNotFound: when there is none with the guid.
    """
    row = find_proposal(tx, request.guid)
    proposal, candidate = show(row), read_candidate(row)
    before, has_changed = _find_before(tx, row)
    if candidate is None or candidate.is_hidden:
        return Review(proposal, {}, None, has_changed, None, ())
    diff = None
    if before is not None:
        old = before[-SEAM:] if candidate.is_end else before
        compared = compare_words(old, candidate.content)
        diff = compared and tuple(DiffPiece(*piece) for piece in compared.pieces)
    near = _find_near(tx, (row.target, candidate.other), candidate, context)
    other, other_has_changed = _find_other(tx, candidate)
    has_changed = has_changed or other_has_changed
    given = show_input(row.input)
    text = given.get(find_content_field(given, candidate.content))
    return Review(proposal, given, text, has_changed, diff, near, other)


def find_proposal(tx: Transaction, guid: str) -> Proposal:
    """Return a proposal. Raises RecordNotFound."""
    found = tx.table(ProposalTable).find(guid)
    if found is None:
        raise RecordNotFound(
            f"no proposal has the guid {guid!r} in {tx.memory_id}; it may have ended after "
            "`review_days`, or wait in another store of the pipeline"
        )
    return found


def show(row: Proposal) -> ProposalView:
    """Return the view of a proposal."""
    return ProposalView(
        row.guid,
        row.decision or PENDING,
        row.policy,
        row.op,
        row.actor,
        orjson.loads(row.origin),
        row.source,
        row.target or None,
        read_candidate(row),
        format_time(row.at_ms),
        format_time(row.until_ms),
        make_version(row),
        row.editor or None,
        row.decided_by or None,
        format_time(row.decided_ms) if row.decision else None,
        row.reason,
        orjson.loads(row.result or "{}"),
    )


def make_version(row: Proposal) -> str:
    """Return what changes with each edit of a proposal, "" after a decision."""
    return "" if row.decision else sha256(row.input.encode()).hexdigest()[:VERSION_DIGITS]


def read_candidate(row: Proposal) -> Candidate | None:
    """Return the record as a proposal would write it, None after a decision."""
    if row.decision:
        return None
    values = orjson.loads(row.candidate)
    return Candidate(**values | {"tags": tuple(values["tags"])})


def find_content_field(given: dict[str, Any], content: str) -> str:
    """Return the only field of an input with the content, or its end. "" if there is none."""
    texts = {name: text for name, text in given.items() if isinstance(text, str) and text}
    found = [name for name, text in texts.items() if text == content]
    found = found or [name for name, text in texts.items() if content.endswith(text)]
    return found[0] if len(found) == 1 else ""


def _find_before(tx: Transaction, row: Proposal) -> tuple[str | None, bool]:
    """Return the present content of the target, and whether the target has changed since."""
    if not row.target:
        return None, False
    found = tx.records.by_guid(row.target)
    if found is None:
        return None, True
    state = found.state
    version = version_of(state.record, state.extras)
    return ("" if state.encrypted else state.content), version != row.version


def _find_other(tx: Transaction, candidate: Candidate) -> tuple[OtherRecord | None, bool]:
    """Return the second record of a proposal, and whether it has changed since."""
    if not candidate.other:
        return None, False
    found = tx.records.by_guid(candidate.other)
    if found is None:
        return OtherRecord(candidate.other, ""), True
    state = found.state
    text = "" if state.encrypted else state.content[:SHOWN_CHARACTERS]
    has_changed = version_of(state.record, state.extras) != candidate.other_version
    return OtherRecord(candidate.other, text), has_changed


def _find_near(
    tx: Transaction, known: tuple[str, str], candidate: Candidate, context: Context
) -> tuple[NearRecord, ...]:
    """Return records of the same kind that resemble a candidate. Closed stores show none."""
    text = candidate.content[:NEAR_CHARACTERS].strip()
    if not text or is_closed(tx.memory_id):
        return ()
    search = SearchRecords(
        text, kind=candidate.kind, limit=MOST_NEAR + len(known), mode="hybrid", plain=True
    )
    try:
        hits = search_records(tx, search, context).items
    except Refused:
        return ()
    near = [
        NearRecord(hit.record.guid, hit.record.content[:NEAR_CHARACTERS], hit.score)
        for hit in hits
        if hit.record.guid not in known
    ]
    return tuple(near[:MOST_NEAR])
