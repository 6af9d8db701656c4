"""The operations on the policies of a store: list, set, delete and test them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
from pydantic import Field

from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import LAST_MS, Moment, format_time
from memrelay.memory.engine.versions import State
from memrelay.memory.errors import RecordNotFound, Refused
from memrelay.memory.models.policies.rules import Judge, Judgment, compile_policy
from memrelay.memory.models.policies.table import PolicyTable
from memrelay.memory.operations import Context, operation
from memrelay.memory.policy_rules import MOST_POLICIES, Policies, Policy
from memrelay.memory.records.data import Data
from memrelay.memory.records.record import DEFAULT_KIND

PolicyName = Annotated[str, Field(min_length=1, max_length=100)]
Text = Annotated[str, Field(max_length=1 << 20)]
Short = Annotated[str, Field(max_length=512)]


@dataclass(frozen=True, slots=True)
class PolicyView:
    """A policy of a store, and what it has done."""

    name: str
    policy: dict[str, Any]
    """The policy as it was given: `name`, `match`, `action`, `internal`."""
    declared_by: str
    """The pipeline whose bundle declares it; empty for one of policies.set."""
    changed_at: Moment
    verdicts: int
    """How often it has acted."""
    last_at: Moment | None
    """When it has acted last."""


@dataclass(frozen=True, slots=True)
class ListPolicies:
    """The policies of the store."""


@dataclass(frozen=True, slots=True)
class PolicyList:
    """The policies in their order: those of bundles first."""

    items: tuple[PolicyView, ...]


@operation("policies.list", access="admin", mutates=False)
def list_policies(tx: Transaction, request: ListPolicies, context: Context) -> PolicyList:
    """List the policies of a store, in their order, with the number of their verdicts."""
    table = tx.table(PolicyTable)
    totals: dict[str, tuple[int, int]] = {}
    for name, _, total, last_at in table.counts():
        before, before_at = totals.get(name, (0, 0))
        totals[name] = before + total, max(before_at, last_at)
    items = []
    for stored in table.all():
        policy = orjson.loads(stored.policy)
        total, last_at = totals.get(policy["name"], (0, 0))
        items.append(
            PolicyView(
                policy["name"],
                policy,
                stored.pipeline,
                format_time(stored.changed_at),
                total,
                format_time(last_at) if last_at else None,
            )
        )
    return PolicyList(tuple(items))


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """The policy to add, or to put in the place of the one with its name."""

    policy: Policy
    """The policy (docs/trust.md): `{"name", "match": {"filter", "find", "origin"}, "action"}`."""


@operation("policies.set", access="admin", mutates=True)
def set_policy(tx: Transaction, request: SetPolicy, context: Context) -> None:
    """Add a policy after the others, or replace the one with its name.

    It holds for the writes from now on.

    Raises Refused: when a bundle declares one with this name, or the store has 100.
    """
    table, name = tx.table(PolicyTable), request.policy["name"]
    _refuse_declared(table, name)
    names = [orjson.loads(one.policy)["name"] for one in table.all() if not one.pipeline]
    if name not in names and len(names) >= MOST_POLICIES:
        raise Refused(f"a store has at most {MOST_POLICIES} policies; delete one first")
    table.put(request.policy, context.now_ms)


@dataclass(frozen=True, slots=True)
class DeletePolicy:
    """The policy to delete."""

    name: PolicyName
    """The name of the policy."""


@operation("policies.delete", access="admin", mutates=True)
def delete_policy(tx: Transaction, request: DeletePolicy, context: Context) -> None:
    """Delete a policy. Records keep what it has done.

    Raises RecordNotFound: when there is none with the name. Raises Refused: when a bundle declares
    it.
    """
    table = tx.table(PolicyTable)
    _refuse_declared(table, request.name)
    if not table.delete(request.name):
        raise RecordNotFound(f"no policy has the name {request.name!r}; policies.list has them")


def _refuse_declared(table: PolicyTable, name: str) -> None:
    for one in table.all():
        if one.pipeline and orjson.loads(one.policy)["name"] == name:
            raise Refused(
                f"the bundle of pipeline {one.pipeline} declares the policy {name!r}; change the "
                "bundle and deploy it, or choose another name"
            )


@dataclass(frozen=True, slots=True)
class RecordToTest:
    """A record to test, which is not written."""

    content: Text = ""
    """The content of the record."""
    policies: Policies = ()
    """The policies to test; by default those of the store."""
    kind: Short = DEFAULT_KIND
    """The kind of the record."""
    source: Short = ""
    """The source of the record: who writes it."""
    scope: Short = ""
    """The scope of the record; by default that of the store."""
    key: Short = ""
    """The key of the record."""
    owner: Short = ""
    """The owner of the record."""
    thread: Short = ""
    """The thread of the record."""
    tags: Annotated[tuple[Short, ...], Field(max_length=100)] = ()
    """The tags of the record."""
    data: Data = field(default_factory=dict)
    """The data of the record."""


@dataclass(frozen=True, slots=True)
class PolicyAction:
    """A policy that holds, and what it does."""

    policy: str
    action: str
    """`redact`, `refuse`, `drop`, `review`, `tag`, `ttl_s` or `limit`."""


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """The effect that the policies would have."""

    outcome: str
    """`stored`, `refuse`, `drop` or `review`."""
    policy: str
    """The policy that stops the write; empty for `stored`."""
    actions: tuple[PolicyAction, ...]
    """The actions of the policies that hold. Limits are named, and not counted."""
    content: str
    """The content as it would be stored."""
    source: str
    tags: tuple[str, ...]
    data: dict[str, Any]
    expires_at: Moment | None
    """When the record would expire."""


@operation("policies.test", access="admin", mutates=False)
def try_policies(tx: Transaction, request: RecordToTest, context: Context) -> PolicyOutcome:
    """Return what policies would do with a record. Nothing is written or counted.

    The record has no origin: `{"verified": false}` holds for it, and no other `origin`.
    """
    table = tx.table(PolicyTable)
    texts = [orjson.dumps(one).decode() for one in request.policies]
    texts = texts or [one.policy for one in table.all()]
    table.load_rules()
    judge = Judge(table.key, tx.memory_id, context.now_ms)
    new = _make_state(request, tx.memory_id, context)
    return describe(judge.judge([compile_policy(text) for text in texts], new, None))


def try_offline(policies: Sequence[Policy], request: RecordToTest, now_ms: int) -> PolicyOutcome:
    """Return what policies would do with a record of a store that does not exist yet."""
    rules = [compile_policy(orjson.dumps(one).decode()) for one in policies]
    context = Context(now_ms, "", 0, str)
    new = _make_state(request, "", context)
    return describe(Judge(b"", "", now_ms).judge(rules, new, None))


def _make_state(request: RecordToTest, memory_id: str, context: Context) -> State:
    return new_state("", request.kind, context.now_ms, request.source)._replace(
        content=request.content,
        scope=request.scope or memory_id,
        key=request.key or None,
        owner=request.owner or None,
        thread=request.thread or None,
        tags=orjson.dumps(request.tags).decode(),
        data=orjson.dumps(request.data).decode() if request.data else None,
        guid="0" * 36,
        in_context=1,
    )


def describe(judgment: Judgment) -> PolicyOutcome:
    """Return a judgment as operations show it."""
    state, stop = judgment.state, judgment.stop
    actions = [PolicyAction(*one) for one in judgment.acted]
    actions += [PolicyAction(rule.name, "limit") for rule in judgment.limits]
    if stop is not None:
        actions.append(PolicyAction(*stop))
    return PolicyOutcome(
        "stored" if stop is None else stop.action,
        "" if stop is None else stop.policy,
        tuple(actions),
        state.content,
        state.source,
        tuple(orjson.loads(state.tags)),
        orjson.loads(state.data or "{}"),
        None if state.expires_at is None else format_time(min(state.expires_at, LAST_MS)),
    )
