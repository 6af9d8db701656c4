"""Goes over the entries of a store in slices, and proposes what it finds for review."""

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import StoredRecord
from memrelay.memory.errors import Refused
from memrelay.memory.models.consolidation.finding import (
    Entry,
    Finding,
    Sort,
    find_pairs,
    find_staleness,
    read_entry,
)
from memrelay.memory.models.consolidation.table import (
    ConsolidationTable,
    Pass,
    ScannedEntry,
    waits_for_removal,
)
from memrelay.memory.models.named_memories.entries import plan_merge
from memrelay.memory.models.reviews.proposing import Suggestion, suggest
from memrelay.memory.models.reviews.table import Proposal, ProposalTable
from memrelay.memory.operations import Context
from memrelay.memory.records.ids import make_id
from memrelay.memory.records.view import version_of

# Entries of one slice that are compared with others, 1 ms each, and that are looked at.
MOST_COMPARED, MOST_SCANNED = 10, 1000
DIGEST_BYTES = 16
LABELS: dict[Sort, str] = {
    "duplicates": "consolidate: near duplicates",
    "contradictions": "consolidate: contradictions",
    "stale": "consolidate: stale",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one agent."""

    # The alias of the agent, which has its own pass.
    name: str
    # The id of a memory, "" for all.
    memory: str
    sorts: tuple[Sort, ...]
    # Days without a write or a confirmation after which an entry is stale. 0: never.
    stale_days: int
    duplicate_threshold: float


@dataclass(slots=True)
class Progress:
    """The counts of a run over its slices so far."""

    # Proposals by sort.
    proposed: dict[str, int] = field(default_factory=dict)
    # Entries that were compared with others.
    compared: int = 0

    @property
    def proposals(self) -> int:
        """Return the number of proposals."""
        return sum(self.proposed.values())


@dataclass(frozen=True, slots=True)
class Budget:
    """How much one run may do."""

    proposals: int
    compared: int


def run_slice(
    tx: Transaction, rules: Rules, progress: Progress, budget: Budget, context: Context
) -> bool:
    """Look at the next entries and propose what it finds, adding to the progress.

    Return whether the run goes on: the pass is not at its end, and the budget is not used up.
    """
    tx.records.flush()
    table = tx.table(ConsolidationTable)
    state = table.find_pass(rules.name)
    if not state.position:
        state = state._replace(began=tx.records.versions.last_change)
    most_compared = min(budget.compared, progress.compared + MOST_COMPARED)
    scanned = 0
    for entry in list(table.scan(state.position, MOST_SCANNED, rules.memory)):
        if progress.compared >= most_compared:
            break
        if not _look_at(tx, entry, state, _Run(rules, progress, budget, context)):
            table.put_pass(rules.name, state)
            return False
        state, scanned = state._replace(position=entry.row), scanned + 1
    else:
        if scanned < MOST_SCANNED:
            table.put_pass(rules.name, Pass(0, state.began, state.began))
            return False
    table.put_pass(rules.name, state)
    return progress.proposals < budget.proposals and progress.compared < budget.compared


@dataclass(frozen=True, slots=True)
class _Run:
    """The arguments of a slice."""

    rules: Rules
    progress: Progress
    budget: Budget
    context: Context


def _look_at(tx: Transaction, scanned: ScannedEntry, state: Pass, run: _Run) -> bool:
    """Propose the findings of one entry. Return False if there is no room for one of them."""
    sorts, rules = run.rules.sorts, run.rules
    staleness = ""
    if "stale" in sorts:
        staleness = find_staleness(scanned, rules.stale_days, run.context.now_ms)
    has_changed = scanned.born > state.since and sorts != ("stale",)
    if not (staleness or has_changed):
        return True
    entry = read_entry(tx, scanned.guid)
    if entry is None:
        return True
    if staleness:
        return _propose(tx, Finding("stale", entry, staleness), run)
    run.progress.compared += 1
    found = find_pairs(tx, entry, sorts, rules.duplicate_threshold)
    return all(_propose(tx, finding, run) for finding in found)


def _propose(tx: Transaction, finding: Finding, run: _Run) -> bool:
    """Propose a finding, unless it was proposed before. Return False if there is no room for it.

    A proposal that waits is renewed if the entry that stays has another version now.
    """
    table, proposals = tx.table(ConsolidationTable), tx.table(ProposalTable)
    digest = make_digest(finding)
    if guid := table.find_proposal(digest):
        known = proposals.find(guid)
        if known is not None and not known.decision and not _is_current(known, finding):
            _suggest(tx, guid, finding, run)
        return True
    entries = [finding.removed] if finding.kept is None else [finding.removed, finding.kept]
    if any(waits_for_removal(table, proposals, one.stored.guid) for one in entries):
        return True
    if run.progress.proposals >= run.budget.proposals:
        return False
    guid = run.context.new_guid()
    if not _suggest(tx, guid, finding, run):
        return not proposals.is_full
    table.add(digest, guid, finding.removed.stored.guid)
    done = run.progress.proposed
    done[finding.sort] = done.get(finding.sort, 0) + 1
    return True


def make_digest(finding: Finding) -> bytes:
    """Return the digest of a finding: the entries with their texts, in any order, and the sort.

    A stale entry is found again if it was written or confirmed since.
    """
    entries = [finding.removed] if finding.kept is None else [finding.removed, finding.kept]
    parts = sorted(f"{one.stored.guid}\0{one.text}" for one in entries)
    if finding.kept is None:
        parts += [finding.sort, finding.why]
    whole = "\0".join(parts).encode(errors="surrogatepass")
    return blake2b(whole, digest_size=DIGEST_BYTES).digest()


def _is_current(known: Proposal, finding: Finding) -> bool:
    """Return whether a waiting proposal has the present versions."""
    stored = [one.stored for one in (finding.removed, finding.kept) if one is not None]
    return all(_version(one) in known.input for one in stored)


def _suggest(tx: Transaction, guid: str, finding: Finding, run: _Run) -> bool:
    """Keep the call that a finding asks for, or renew it. Return whether it waits now."""
    removed, kept, why = finding.removed.stored, finding.kept, finding.why
    label = LABELS[finding.sort]
    if kept is None:
        given = {"id": _ident(tx, removed), "if_version": [_version(removed)], "reason": why}
        suggestion = Suggestion("entries.delete", given, label, removed, removed.state)
        return suggest(tx, guid, suggestion, run.context)
    is_outdated = finding.sort == "contradictions"
    merge: dict[str, Any] = {
        "id": _ident(tx, kept.stored),
        "other_id": _ident(tx, removed),
        "is_outdated": is_outdated,
        "if_version": [_version(kept.stored)],
        "if_other_version": [_version(removed)],
        "reason": why,
    }
    after = kept.stored.state
    if not is_outdated:
        try:
            pair = plan_merge((after.record, after.extras), _both(finding.removed))
        except Refused:
            return False
        after = after.with_values(*pair)
    suggestion = Suggestion("entries.merge", merge, label, kept.stored, after, removed)
    return suggest(tx, guid, suggestion, run.context)


def _both(entry: Entry) -> Any:
    return entry.stored.state.record, entry.stored.state.extras


def _ident(tx: Transaction, stored: StoredRecord) -> str:
    return make_id("me", tx.memory_id, stored.guid)


def _version(stored: StoredRecord) -> str:
    return version_of(stored.state.record, stored.state.extras)
