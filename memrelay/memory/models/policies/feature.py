"""The feature that applies the policies of a store to each write."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import proxy

from memrelay.memory.engine.features import DeferredRecord, Feature
from memrelay.memory.engine.feed import VERDICT
from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.origins import Origin
from memrelay.memory.engine.versions import State
from memrelay.memory.errors import PolicyStop
from memrelay.memory.models.policies.rules import Judge, Judgment, Rule, RuleSet, Stop
from memrelay.memory.models.policies.table import PolicyTable, StoredVerdict

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

# Transactions after a match in which records are seen one by one.
CAREFUL = 32
# Sources whose counts stay in memory.
MOST_COUNTED = 10_000


class Policies(Feature):
    """Evaluates each record before it is written, and texts that are no records.

    Verdicts and limits are written before the commit, so a rollback forgets them.
    """

    def __init__(self, store: "Store") -> None:
        super().__init__(store)
        self._table = store.table(PolicyTable)
        self._memory_id = store.memory_id
        # A message waits in the store before its cascade goes on, and may hold what a policy finds
        # then. Nothing of it stays in free space.
        self._connection.pragma("secure_delete", True)
        # The records keep the path, so a real reference would be a cycle.
        self._records = proxy(store.records)
        self._verdicts: list[StoredVerdict] = []
        # By policy and source: the end of the window (Unix ms) and the writes in it.
        self._counts: dict[tuple[str, str], tuple[int, int]] = {}
        self._counted: set[tuple[str, str]] = set()
        self._reviews = self._stops = True
        # For so many transactions, records are seen one by one.
        self._careful = 0

    def reset(self) -> None:
        """Drop what the open transaction has noted, after a rollback."""
        self._verdicts.clear()
        self._counts.clear()
        self._counted.clear()

    def may_defer(self) -> bool:
        """Return whether plain new records may be seen together. After a match they are seen one by
        one for a while, because there may be more.
        """
        self._careful = max(0, self._careful - 1)
        rules = self._table.rules or self._table.load_rules()
        return not self._careful and rules.may_defer

    def admits_all(self, records: Sequence[DeferredRecord]) -> bool:
        """Return whether no policy applies to these records."""
        rules = self._table.rules or self._table.load_rules()
        if not rules.concern_any(records, self._memory_id):
            return True
        self._careful = CAREFUL
        return False

    @contextmanager
    def approved(self) -> Iterator[None]:
        """Apply no `review` in the block, because a reviewer has approved the write."""
        self._reviews = False
        try:
            yield
        finally:
            self._reviews = True

    @contextmanager
    def applying(self) -> Iterator[None]:
        """Stop and count nothing in the block, which changes what the store has."""
        self._stops = False
        try:
            yield
        finally:
            self._stops = True

    def admit(self, new: State, before: State | None) -> State:
        """Return a record as the policies let it in: `new` itself if no policy changes it.

        Raises PolicyStop: a policy refuses it, drops it, or wants a review.
        """
        rules = self._table.rules or self._table.load_rules()
        origin = self._versions.origins.current
        if rules.concerns(new, self._memory_id, origin):
            return self._admit_concerned(rules, new, before)
        if rules.limits and self._stops:
            held = [
                rule
                for rule in rules.limits
                if (rule.holds is None or rule.holds(new))
                and (rule.comes is None or rule.comes(origin))
            ]
            if (used_up := self._find_used_up(held, new.source)) is not None:
                raise PolicyStop(used_up.policy, used_up.action, new, before)
            self._count(held, new.source)
        return new

    def admit_texts(self, kind: str, texts: Sequence[str], names: Sequence[str]) -> Sequence[str]:
        """Return texts that are no record, redacted. `kind` is what a filter compares.

        Raises PolicyStop: a policy that holds finds something in a name, or finds something and
        does not only redact.
        """
        rules = self._table.rules or self._table.load_rules()
        if not rules.may_find((*texts, *names)):
            return texts
        now_ms, actor, _ = self._versions.current_act
        about = new_state("", kind, now_ms, actor)
        judge = self._make_judge()
        judgment = judge.judge_texts(rules.rules, texts, names, about)
        if judgment.stop is not None:
            raise self._make_stop(judgment.stop, judgment, None)
        self._records.findings.update(judgment.replaced)
        self._note_acted(judgment)
        return [judge.redact_text(text) for text in texts]

    def judge(self, new: State, before: State | None = None) -> Judgment:
        """Return what the policies would decide about a record. Nothing is noted or counted."""
        rules = self._table.rules or self._table.load_rules()
        return self._make_judge().judge(rules.rules, new, before)

    def bound_expiry(self, state: State) -> int | None:
        """Return the earliest end that `ttl_s` gives to a record since its last write, Unix ms."""
        rules = self._table.rules or self._table.load_rules()
        origin = self._versions.origins.find(state.origin) or Origin("")
        judge = Judge(self._table.key, self._memory_id, state.updated_at, origin)
        return judge.judge(rules.rules, state._replace(expires_at=None), None).state.expires_at

    def note_stop(self, stop: PolicyStop) -> None:
        """Note and count a write that a policy has stopped, when it is settled.

        A write that waits for review counts for limits too.
        """
        self._records.findings.update(stop.findings)
        self.note(stop.policy, stop.action, stop.candidate.guid)
        if stop.action == "review":
            judgment = self.judge(stop.candidate, stop.before)
            self._count(judgment.limits, stop.candidate.source)

    def note(self, policy: str, action: str, guid: str) -> None:
        """Note a verdict of the current actor. Announce it unless the write waits for review."""
        now_ms, actor, _ = self._versions.current_act
        self._verdicts.append(StoredVerdict(now_ms, policy, action, guid, actor))
        if action != "review":
            self._records.announce(VERDICT, guid, {"policy": policy, "action": action})

    def complete(self) -> None:
        """Write the counts of limits and the verdicts."""
        self._store_counts()
        if self._verdicts:
            self._table.add_verdicts(self._verdicts)
            self._verdicts.clear()

    def _store_counts(self) -> None:
        if self._counted:
            rows = ((*key, *self._counts[key]) for key in self._counted)
            self._table.put_limits(rows, self._versions.now_ms)
            self._counted.clear()

    def _make_judge(self) -> Judge:
        origin = self._versions.origins.current
        return Judge(self._table.key, self._memory_id, self._versions.now_ms, origin)

    def _admit_concerned(self, rules: RuleSet, new: State, before: State | None) -> State:
        """Judge a record to which a policy may apply."""
        judgment = self._make_judge().judge(rules.rules, new, before)
        stop = judgment.stop
        if not self._stops or (stop is not None and stop.action == "review" and not self._reviews):
            stop = None
        if stop is None and self._stops:
            stop = self._find_used_up(judgment.limits, new.source)
        if stop is not None:
            raise self._make_stop(stop, judgment, before)
        if self._stops:
            self._count(judgment.limits, new.source)
        self._records.findings.update(judgment.replaced)
        self._note_acted(judgment)
        return judgment.state if judgment.acted else new

    def _make_stop(self, stop: Stop, judgment: Judgment, before: State | None) -> PolicyStop:
        made = PolicyStop(stop.policy, stop.action, judgment.state, before)
        made.findings = judgment.replaced
        self._records.findings.update(judgment.replaced)
        return made

    def _note_acted(self, judgment: Judgment) -> None:
        for policy, action in judgment.acted:
            self.note(policy, action, judgment.state.guid)

    def _find_used_up(self, limits: Sequence[Rule], source: str) -> Stop | None:
        """Return the first limit that a source has used up."""
        for rule in limits:
            most, _ = rule.value
            if self._find_count(rule, source)[1] >= most:
                return Stop(rule.name, "refuse")
        return None

    def _count(self, limits: Sequence[Rule], source: str) -> None:
        for rule in limits:
            ends_at, writes = self._find_count(rule, source)
            self._counts[rule.name, source] = ends_at, writes + 1
            self._counted.add((rule.name, source))

    def _find_count(self, rule: Rule, source: str) -> tuple[int, int]:
        """Return the end of the present window of a source, Unix ms, and the writes in it."""
        now_ms, (_, period_ms) = self._versions.now_ms, rule.value
        known = self._counts.get((rule.name, source))
        if known is None:
            if len(self._counts) >= MOST_COUNTED:
                self._store_counts()
                self._counts.clear()
            known = self._counts[rule.name, source] = self._table.find_limit(rule.name, source)
        ends_at = (now_ms // period_ms + 1) * period_ms
        return known if known[0] >= ends_at else (ends_at, 0)
