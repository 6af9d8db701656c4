"""Keep a call that a policy has stopped as a proposal."""

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
    origin = {"pipeline": context.pipeline, "message": context.input_id}
    values = tx.records.admit_texts("origin", context.origin[1:])
    origin |= dict(zip(Origin._fields[1:], values, strict=False))
    findings = {**tx.records.findings, **getattr(stop, "findings", {})}
    # Redacted values are not kept.
    replace = order_findings(findings).replace_text if findings else str
    table.add(
        guid,
        operation.name,
        orjson.dumps(replace_strings(orjson.loads(orjson.dumps(given)), replace)).decode(),
        orjson.dumps(_describe(new, stop.before, target)).decode(),
        stop.policy,
        context.actor,
        orjson.dumps({name: value for name, value in origin.items() if value}).decode(),
        new.source,
        "" if target is None else target.guid,
        "" if target is None else version_of(target.state.record, target.state.extras),
        context.now_ms,
        context.now_ms + int(context.review_days * DAY_MS),
    )
    return ReviewPending(guid)


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
