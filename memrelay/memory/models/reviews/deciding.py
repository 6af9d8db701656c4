"""The operations that decide on proposals: approve, reject, and edit before an approval."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field, ValidationError

from memrelay.memory.engine.features import FEATURES, POLICIES
from memrelay.memory.engine.models import load
from memrelay.memory.engine.origins import Origin
from memrelay.memory.engine.retention import DAY_MS
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import Refused, StoppedTooLate, VersionConflict
from memrelay.memory.models.reviews.reading import (
    PolicyName,
    ProposalView,
    find_content_field,
    find_proposal,
    make_version,
    show,
)
from memrelay.memory.models.reviews.table import Decided, Proposal, ProposalTable
from memrelay.memory.operations import Context, Operation, known_operation, operation, set_actor
from memrelay.memory.records.paging import Cursor, parse_cursor
from memrelay.memory.records.view import Content, Guid, Name, Reason

# Proposals that one call decides, at most.
MOST_AT_ONCE = 100
MOST_REASON_CHARACTERS = 1024
# The actors of calls without a key: the operator of the machine, who has no name.
WITHOUT_KEY = frozenset({"", "http", "console", "cli", "mcp", "python"})
# The fields of an output that name the written record.
IDS = ("guid", "id", "key", "action", "version")
Guids = Annotated[tuple[Guid, ...], Field(max_length=MOST_AT_ONCE)]
Versions = Annotated[
    tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=MOST_AT_ONCE)
]
Outcome = Literal["approved", "rejected", "conflict", "denied", "missing"]


@dataclass(frozen=True, slots=True)
class Decide:
    """The proposals to decide on: those with these guids, or all of a policy or a source."""

    guids: Guids = ()
    """The guids of the proposals."""
    versions: Versions = ()
    """The `version` of each of these proposals as it was read. One that was edited since is a
    conflict."""
    policy: PolicyName = ""
    """Without guids: those that this policy holds, the oldest first."""
    source: Name = ""
    """Without guids: those of this source, the oldest first."""
    limit: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)] = MOST_AT_ONCE
    """Without guids: the maximum number of proposals."""
    cursor: Cursor = ""
    """Without guids: the `next_cursor` of the previous call."""
    reason: Reason = ""
    """The reason, kept with the decision and in the history."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a proposal."""

    guid: str
    status: Outcome
    """`conflict`: the write cannot be made now, and the proposal stays. `denied`: it is the
    caller's own. `missing`: there is none with the guid."""
    is_repeated: bool = False
    """Whether it was decided before. Then this call has changed nothing."""
    decided_by: str | None = None
    decided_at: Moment | None = None
    result: dict[str, Any] | None = None
    """The ids of what was written."""
    code: str | None = None
    """The code of the error, of a conflict."""
    detail: str = ""
    """Why it was not approved."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """The outcomes of the proposals, in their order."""

    items: tuple[Decision, ...]
    next_cursor: str | None
    """Set if more proposals may match."""


@operation("reviews.approve", access="review", mutates=True)
def approve(tx: Transaction, request: Decide, context: Context) -> Decisions:
    """Make the writes of proposals now, each once. The writer cannot approve its own.

    Raises Refused: when neither guids nor a policy or source are given, or the cursor is invalid.
    """
    return _decide_all(tx, request, context, _approve)


@operation("reviews.reject", access="review", mutates=True)
def reject(tx: Transaction, request: Decide, context: Context) -> Decisions:
    """Reject proposals. Their text is deleted, and the decision is kept.

    Raises Refused: when neither guids nor a policy or source are given, or the cursor is invalid.
    """
    return _decide_all(tx, request, context, _reject)


@dataclass(frozen=True, slots=True)
class EditReview:
    """The new content of a proposal."""

    guid: Guid
    """The guid of the proposal."""
    content: Content
    """The text to write; for an append, the text to append."""


@operation("reviews.edit", access="review", mutates=True)
def edit(tx: Transaction, request: EditReview, context: Context) -> ProposalView:
    """Change the content of a proposal before it is approved.

    Raises RecordNotFound: when none waits with the guid.
    Raises Refused: when it was decided, or its content is not one field of the input.
    """
    row = find_proposal(tx, request.guid)
    if _is_own(row, context):
        raise Refused("you have written it, so you cannot edit it; reject it, and write it again")
    if row.decision:
        raise Refused(f"the proposal was {row.decision} by {row.decided_by} and cannot be edited")
    given, candidate = orjson.loads(row.input), orjson.loads(row.candidate)
    name = find_content_field(given, candidate["content"])
    if not name:
        raise Refused(
            f"the content of this call of {row.op} is not one field of its input, so it cannot be "
            "edited; reject it, and let its writer write it again"
        )
    start = candidate["content"].removesuffix(given[name])
    candidate["content"], given[name] = start + request.content, request.content
    changed = orjson.dumps(given)
    try:
        _known(row).adapter.validate_json(changed, strict=True)
    except ValidationError as error:
        raise Refused(f"{row.op}: {name} is invalid: {error.errors()[0]['msg']}") from error
    table = tx.table(ProposalTable)
    table.edit(row, changed.decode(), orjson.dumps(candidate).decode(), context.actor)
    return show(find_proposal(tx, request.guid))


def _decide_all(
    tx: Transaction, request: Decide, context: Context, decide: Callable[..., Decision]
) -> Decisions:
    """Decide on the proposals of a request, except those that were edited since the caller has read
    them. Raises Refused.
    """
    rows, cursor = _select(tx, request, context)
    seen = _read_versions(request)
    decisions = (
        _find_edit(guid, row, seen) or decide(tx, guid, row, request.reason, context)
        for guid, row in rows
    )
    return Decisions(tuple(decisions), cursor)


def _select(
    tx: Transaction, request: Decide, context: Context
) -> tuple[list[tuple[str, Proposal | None]], str | None]:
    """Return the proposals of a request by their guids, and the cursor of those that follow."""
    table = tx.table(ProposalTable)
    if request.guids:
        return [(guid, table.find(guid)) for guid in dict.fromkeys(request.guids)], None
    filters = {"policy": request.policy, "source": request.source}
    if not any(filters.values()):
        raise Refused("name the proposals: give `guids`, or `policy` or `source` for all of these")
    after = parse_cursor(request.cursor) or 0
    rows = list(table.page("", filters, after, request.limit))
    more = str(rows[-1].n) if len(rows) == request.limit else None
    return [(row.guid, row) for row in rows], more


def _read_versions(request: Decide) -> dict[str, str]:
    """Return the versions by the guids of a request. Raises Refused."""
    if request.versions and len(request.versions) != len(request.guids):
        raise Refused(
            "`versions` must have one version for each of `guids`; leave it out otherwise"
        )
    return dict(zip(request.guids, request.versions, strict=False))


def _find_edit(guid: str, row: Proposal | None, seen: dict[str, str]) -> Decision | None:
    """Return the conflict of a proposal that was edited since the caller has read it."""
    if row is None or row.decision or seen.get(guid) in (None, make_version(row)):
        return None
    detail = f"{row.editor or 'another reviewer'} has edited it since you read it; read it again"
    return Decision(guid, "conflict", code=VersionConflict.code, detail=detail)


def _reject(
    tx: Transaction, guid: str, row: Proposal | None, reason: str, context: Context
) -> Decision:
    if row is None or row.decision:
        return _answer_decided(guid, row)
    return _decide(tx, row, Decided("rejected", context.actor, context.now_ms, reason), context)


def _answer_decided(guid: str, row: Proposal | None) -> Decision:
    """Return the answer for a proposal that does not wait."""
    if row is None or not row.decision:
        return Decision(guid, "missing", detail="no proposal has this guid; it may have ended")
    return Decision(
        guid,
        row.decision,
        is_repeated=True,
        decided_by=row.decided_by,
        decided_at=format_time(row.decided_ms),
        result=orjson.loads(row.result),
        detail=f"already {row.decision} by {row.decided_by}",
    )


def _approve(
    tx: Transaction, guid: str, row: Proposal | None, reason: str, context: Context
) -> Decision:
    if row is None or row.decision:
        return _answer_decided(guid, row)
    if _is_own(row, context):
        detail = f"{context.actor} has written it, and another reviewer must approve it"
        return Decision(guid, "denied", detail=detail)
    try:
        output = _make_write(tx, row, reason, context)
    except ValidationError as error:
        return Decision(guid, "conflict", code=Refused.code, detail=error.errors()[0]["msg"])
    except _Conflict as conflict:
        return Decision(guid, "conflict", code=conflict.error.code, detail=str(conflict.error))
    finally:
        set_actor(tx, context)
    ids = orjson.dumps(_find_ids(output)).decode()
    approved = Decided("approved", context.actor, context.now_ms, reason, ids)
    return _decide(tx, row, approved, context)


def _is_own(row: Proposal, context: Context) -> bool:
    """Return whether the caller, or its key, has made the write."""
    if row.actor == context.actor and context.actor not in WITHOUT_KEY:
        return True
    key = _read_origin(row).key
    return bool(key) and key == Origin(*context.origin or ("",)).key


class _Conflict(Exception):
    """A write was refused, and has changed nothing."""

    def __init__(self, error: Refused) -> None:
        super().__init__(str(error))
        self.error = error


def _make_write(tx: Transaction, row: Proposal, reason: str, context: Context) -> Any:
    """Run the call of a proposal as its writer. Raises ValidationError and _Conflict.

    Raises StoppedTooLate: the call is refused after it has changed something. The next run knows
    it, and does not make the write.
    """
    known_refusals = tx.table(ProposalTable).find_refusals((context.input_id, context.now_ms))
    if row.guid in known_refusals:
        raise _Conflict(known_refusals[row.guid])
    operation = _known(row)
    given = operation.adapter.validate_json(row.input, strict=True)
    writer = _act_for(tx, row, _describe(row, given, reason, context), context)
    if "reason" in {field.name for field in fields(operation.input)}:
        given = replace(given, reason=writer.reason)
    tx.records.complete()
    before = tx.extent
    try:
        with _without_review(tx):
            return operation.run(tx, given, writer)
    except Refused as error:
        if tx.extent != before:
            known_refusals[row.guid] = error
            raise StoppedTooLate from error
        raise _Conflict(error) from error


def _known(row: Proposal) -> Operation:
    return known_operation(row.op)


def _act_for(tx: Transaction, row: Proposal, reason: str, context: Context) -> Context:
    """Return the context of a proposal's writer. The first new guid in it is the reserved one."""

    def guids() -> Iterator[str]:
        if tx.records.by_guid(row.guid) is None:
            yield row.guid
        while True:
            yield context.new_guid()

    origin, new_guid = _read_origin(row), guids().__next__
    return replace(context, actor=row.actor, origin=origin, reason=reason, new_guid=new_guid)


def _read_origin(row: Proposal) -> Origin:
    known = orjson.loads(row.origin)
    return Origin(row.actor, *(known.get(name, "") for name in Origin._fields[1:]))


def _describe(row: Proposal, given: Any, reason: str, context: Context) -> str:
    """Return the reason of the changes, which names the reviewers."""
    edited = f"edited by {row.editor}, " if row.editor else ""
    reasons = [text for text in (getattr(given, "reason", ""), reason) if text]
    whole = ": ".join([f"{edited}approved by {context.actor}", *reasons])
    return whole[:MOST_REASON_CHARACTERS]


def _without_review(tx: Transaction) -> AbstractContextManager[Any]:
    """Let policies hold nothing for review in the block."""
    if not tx.has_feature(POLICIES):
        return nullcontext()
    approved: AbstractContextManager[Any] = tx.table(load(FEATURES[POLICIES])).approved()
    return approved


def _find_ids(output: Any) -> dict[str, Any]:
    """Return the fields of an output that name the written record, also in its entry or fact."""
    if not hasattr(output, "__dataclass_fields__"):
        return {}
    values = orjson.loads(orjson.dumps(output))
    ids = {name: values[name] for name in IDS if values.get(name) is not None}
    for value in values.values() if not {"guid", "id"} & ids.keys() else ():
        if isinstance(value, dict):
            ids |= {name: value[name] for name in ("guid", "id") if name in value}
    return ids


def _decide(tx: Transaction, row: Proposal, decided: Decided, context: Context) -> Decision:
    until_ms = context.now_ms + int(context.review_days * DAY_MS)
    tx.table(ProposalTable).decide(row, decided, until_ms)
    return Decision(
        row.guid,
        decided.decision,
        decided_by=decided.by,
        decided_at=format_time(decided.at_ms),
        result=orjson.loads(decided.result),
    )
