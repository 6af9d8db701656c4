"""Keep a call that a policy has stopped, or that a block suggests, as a proposal."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from memrelay.memory.engine.identity import VOUCHED
from memrelay.memory.engine.models import internal_kinds
from memrelay.memory.engine.origins import Origin
from memrelay.memory.engine.retention import DAY_MS
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import PolicyStop, ReviewFull
from memrelay.memory.models.reviews.table import MOST_WAITING, ProposalTable
from memrelay.memory.operations import DRY_RUN, Context, Operation
from memrelay.memory.records.admission import replace_strings
from memrelay.memory.records.found_values import order_findings
from memrelay.memory.records.view import version_of
from memrelay.memory.stopped_writes import ReviewPending


def propose(
    tx: Transaction, stop: PolicyStop, operation: Operation, given: Any, context: Context
) -> ReviewPending:
    """Keep a stopped call for review and return its answer.

    A dry run keeps nothing. Raises ReviewFull: too many writes wait.
    """
    table, new = tx.table(ProposalTable), stop.candidate
    target = None if stop.before is None else tx.records.by_guid(new.guid)
    guid = context.new_guid()
    if target is None and table.find(new.guid) is None:
        guid = new.guid
    if getattr(given, DRY_RUN, False):
        return ReviewPending(guid)
    if table.is_full:
        raise ReviewFull(
            f"{MOST_WAITING:,} writes to this store wait for review already, so the policy "
            f"{stop.policy!r} refuses more; approve or reject some, then write again"
        )
    findings = {**tx.records.findings, **getattr(stop, "findings", {})}
    # Redacted values are not kept.
    replace = order_findings(findings).replace_text if findings else str
    call = _Call(operation.name, orjson.loads(orjson.dumps(given)), stop.policy)
    _add(tx, guid, call, (_describe(new, stop.before, target), target), context, replace=replace)
    return ReviewPending(guid)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A call that a block suggests, with the versions of the records that it is about."""

    operation: str
    input: dict[str, Any]
    """The input of the operation, with the reason in `reason`."""
    label: str
    """The name of the rule, which takes the place of a policy."""
    target: StoredRecord
    """The record that the call changes or deletes."""
    after: State
    """The target as the call would leave it; as it is, if the call deletes it."""
    other: StoredRecord | None = None
    """A second record, which the call deletes."""


def suggest(tx: Transaction, guid: str, suggestion: Suggestion, context: Context) -> bool:
    """Keep a call for review under a guid, or renew it if it waits for review there.

    Return whether it waits now. It does not if the store has the maximum number of proposals, or
    the proposal was decided.
    """
    table, target, other = tx.table(ProposalTable), suggestion.target, suggestion.other
    known = table.find(guid)
    if known is not None and known.decision:
        return False
    if known is None and table.is_full:
        return False
    candidate = _describe(suggestion.after, None, None)
    if other is not None:
        candidate |= {"other": other.guid, "other_version": _find_version(other)}
    call = _Call(suggestion.operation, suggestion.input, suggestion.label)
    if known is None:
        _add(tx, guid, call, (candidate, target), context)
    else:
        input = orjson.dumps(suggestion.input).decode()
        table.renew(known, input, orjson.dumps(candidate).decode(), _find_version(target))
    return True


@dataclass(frozen=True, slots=True)
class _Call:
    """A call to keep, and the name of the policy or the rule that holds it."""

    operation: str
    input: dict[str, Any]
    label: str


def _add(
    tx: Transaction,
    guid: str,
    call: _Call,
    records: tuple[dict[str, Any], StoredRecord | None],
    context: Context,
    *,
    replace: Callable[[str], str] = str,
) -> None:
    """Add a proposal. `records` are the candidate and the target."""
    candidate, target = records
    origin = {"pipeline": context.pipeline, "message": context.input_id}
    values = tx.records.admit_texts("origin", context.origin[1:])
    origin |= dict(zip(Origin._fields[1:], values, strict=False))
    tx.table(ProposalTable).add(
        guid,
        call.operation,
        orjson.dumps(replace_strings(call.input, replace)).decode(),
        orjson.dumps(candidate).decode(),
        call.label,
        context.actor,
        orjson.dumps({name: value for name, value in origin.items() if value}).decode(),
        candidate["source"],
        "" if target is None else target.guid,
        "" if target is None else _find_version(target),
        context.now_ms,
        context.now_ms + int(context.review_days * DAY_MS),
    )


def _find_version(stored: StoredRecord) -> str:
    return version_of(stored.state.record, stored.state.extras)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record as a proposal would write it."""

    content: str
    kind: str
    scope: str
    source: str
    tags: tuple[str, ...]
    key: str | None
    owner: str | None
    thread: str | None
    data: Any
    in_context: bool
    is_hidden: bool
    """Whether its text is encrypted or internal, and is not shown."""
    is_end: bool
    """Whether `content` has only the end of a long record, with the appended text."""
    other: str = ""
    """The guid of a second record, which the call deletes; "" for none."""
    other_version: str = ""
    """Its version then."""


def _describe(new: State, before: State | None, target: StoredRecord | None) -> dict[str, Any]:
    """Return the fields of a candidate as JSON values. Encrypted and internal ones show no text."""
    is_end = target is not None and before is not None and before.content != target.content
    is_hidden = bool(new.encrypted) or (not new.in_context and new.kind in internal_kinds())
    candidate = Candidate(
        "" if is_hidden else new.content,
        new.kind,
        new.scope,
        new.source,
        tuple(orjson.loads(new.tags)),
        new.key,
        new.owner,
        new.thread,
        orjson.loads(new.data) if new.data and not is_hidden else {},
        bool(new.in_context),
        is_hidden,
        is_end,
    )
    return asdict(candidate)


def show_input(data: str) -> dict[str, Any]:
    """Return the input of a proposal, without what only an interface sets."""
    given: dict[str, Any] = orjson.loads(data)
    given.pop(VOUCHED, None)
    return given
