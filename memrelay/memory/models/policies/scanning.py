"""Policies and what a store has already: verdicts, a scan, and the changes of a scan."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import orjson
from pydantic import Field

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time, next_change_ms
from memrelay.memory.engine.versions import StoredRecord
from memrelay.memory.models.policies.feature import Policies as PolicyFeature
from memrelay.memory.models.policies.policies import PolicyAction, PolicyName
from memrelay.memory.models.policies.rules import Judge, Judgment, Rule, compile_policy
from memrelay.memory.models.policies.table import PolicyTable
from memrelay.memory.operations import Context, operation
from memrelay.memory.policy_rules import Policies
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.paging import Limit

# Records of one step, and characters of their contents.
MOST_SCANNED, MOST_CHARACTERS = 500, 4 << 20
Row = Annotated[int, Field(ge=0, le=LARGEST)]
Step = Annotated[int, Field(ge=1, le=MOST_SCANNED)]


@dataclass(frozen=True, slots=True)
class ScanPolicies:
    """The part of the store to scan."""

    policies: Policies = ()
    """The policies to scan with; by default those of the store."""
    after: Row = 0
    """The `next` of the previous page; 0 for the oldest record."""
    limit: Step = MOST_SCANNED
    """The maximum number of records to look at."""


@dataclass(frozen=True, slots=True)
class ScannedRecord:
    """A record to which a policy applies."""

    guid: str
    actions: tuple[PolicyAction, ...]
    """The effect that the policies would have had."""


@dataclass(frozen=True, slots=True)
class PolicyScan:
    """A page of a scan."""

    items: tuple[ScannedRecord, ...]
    """Only the records to which a policy applies."""
    scanned: int
    """The number of records that were looked at."""
    next: int
    """The `after` of the next page; 0 after the last record."""


@operation("policies.scan", access="admin", mutates=False)
def scan(tx: Transaction, request: ScanPolicies, context: Context) -> PolicyScan:
    """Return what policies would have done with the records that a store has, the oldest first.

    Nothing is written or counted. Limits have no part in it.
    """
    rules = [compile_policy(orjson.dumps(one).decode()) for one in request.policies]
    rules = rules or [*tx.table(PolicyTable).load_rules().rules]
    scanned, next_row, items = 0, 0, list[ScannedRecord]()
    for stored, judgment in _judge_page(tx, rules, request.after, request.limit, context):
        scanned, next_row = scanned + 1, stored.row
        if judgment is not None and (actions := _list_actions(judgment)):
            items.append(ScannedRecord(stored.state.guid, actions))
    return PolicyScan(tuple(items), scanned, _find_next(tx, next_row))


@dataclass(frozen=True, slots=True)
class ApplyPolicies:
    """The part of the store to change."""

    after: Row = 0
    """The `next` of the previous step; 0 for the oldest record."""
    limit: Step = MOST_SCANNED
    """The maximum number of records to look at."""


@dataclass(frozen=True, slots=True)
class PoliciesApplied:
    """The changes of one step."""

    changed: tuple[ScannedRecord, ...]
    """The records that have a new version, with what the policies have done."""
    scanned: int
    """The number of records that were looked at."""
    next: int
    """The `after` of the next step; 0 after the last record."""


@operation("policies.apply", access="admin", mutates=True)
def apply(tx: Transaction, request: ApplyPolicies, context: Context) -> PoliciesApplied:
    """Apply redactions, tags and expiries to the records of a store, up to 500 in one call.

    Each changed record keeps its earlier version in its history, with the text that is redacted
    now; records.erase removes it. Records that a policy would stop stay as they is.
    """
    rules, noted = tx.table(PolicyTable).load_rules().rules, tx.table(PolicyFeature)
    scanned, next_row, changed = 0, 0, list[ScannedRecord]()
    page = list(_judge_page(tx, [*rules], request.after, request.limit, context))
    for stored, judgment in page:
        scanned, next_row = scanned + 1, stored.row
        if judgment is None or not judgment.acted or judgment.state == stored.state:
            continue
        updated_at = next_change_ms(context.now_ms, stored.state.updated_at)
        wanted = judgment.state._replace(updated_at=updated_at)
        tx.records.overwrite(stored, wanted, is_admitted=True)
        for policy, action in judgment.acted:
            noted.note(policy, action, wanted.guid)
        actions = tuple(PolicyAction(*one) for one in judgment.acted)
        changed.append(ScannedRecord(wanted.guid, actions))
    return PoliciesApplied(tuple(changed), scanned, _find_next(tx, next_row))


def _judge_page(
    tx: Transaction, rules: list[Rule], after: int, limit: int, context: Context
) -> Iterator[tuple[StoredRecord, Judgment | None]]:
    """Yield records after a row, each with its judgment."""
    table, size = tx.table(PolicyTable), 0
    table.load_rules()
    for stored in table.records_after(after, limit):
        origin = table.origin_of(stored)
        judge = Judge(table.key, tx.memory_id, context.now_ms, origin)
        yield stored, judge.judge(rules, stored.state, None)
        size += len(stored.content)
        if size > MOST_CHARACTERS:
            return


def _list_actions(judgment: Judgment) -> tuple[PolicyAction, ...]:
    actions = [PolicyAction(*one) for one in judgment.acted]
    if judgment.stop is not None:
        actions.append(PolicyAction(*judgment.stop))
    return tuple(actions)


def _find_next(tx: Transaction, row: int) -> int:
    """Return the row if there are records after it, else 0."""
    return row if row and tx.table(PolicyTable).has_records_after(row) else 0


@dataclass(frozen=True, slots=True)
class ListVerdicts:
    """The verdicts to list."""

    policy: Annotated[str, Field(max_length=100)] = ""
    """Only those of this policy."""
    action: Annotated[str, Field(max_length=20)] = ""
    """Only those with this action, such as `redact`."""
    before: Row = 0
    """The `next` of the previous page; 0 for the newest."""
    limit: Limit = 100
    """The maximum number of verdicts."""


@dataclass(frozen=True, slots=True)
class VerdictView:
    """The action of a policy on a write, without the found value."""

    at: Moment
    policy: str
    action: str
    guid: str
    """The guid of the record; empty for a text that is no record."""
    actor: str
    """The caller, or the agent whose block wrote."""


@dataclass(frozen=True, slots=True)
class VerdictCount:
    """How often a policy has acted."""

    policy: PolicyName
    action: str
    total: int
    last_at: Moment


@dataclass(frozen=True, slots=True)
class VerdictList:
    """The verdicts, the newest first, and how many there were of each policy."""

    items: tuple[VerdictView, ...]
    counts: tuple[VerdictCount, ...]
    """Of all verdicts, also of those that are no longer listed."""
    next: int
    """The `before` of the next page; 0 if there is none."""


@operation("policies.verdicts", access="admin", mutates=False)
def list_verdicts(tx: Transaction, request: ListVerdicts, context: Context) -> VerdictList:
    """List the latest 10,000 verdicts of policies, and count all."""
    table = tx.table(PolicyTable)
    before = request.before or LARGEST
    found = list(table.verdicts(before, request.limit + 1, request.policy, request.action))
    page = found[: request.limit]
    return VerdictList(
        tuple(
            VerdictView(format_time(one.at), one.policy, one.action, one.guid, one.actor)
            for _, one in page
        ),
        tuple(
            VerdictCount(policy, action, total, format_time(last_at))
            for policy, action, total, last_at in table.counts()
        ),
        page[-1][0] if len(found) > len(page) else 0,
    )
