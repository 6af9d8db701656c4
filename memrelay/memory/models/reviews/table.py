"""The rows of proposals: writes that wait for review, and the decisions on them."""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from memrelay.memory.engine.erasures import Erases, ModelErasure
from memrelay.memory.engine.quotes import Matcher
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.versions import State
from memrelay.memory.errors import Refused

# Proposals of one store that wait, at most.
MOST_WAITING = 10_000
# Texts that a user may have written.
TEXTS = ("guid", "input", "candidate", "actor", "origin", "source", "target", "reason", "result")
EMPTY = "{}"


class Proposal(NamedTuple):
    """A write that waits for review, or the decision on it. Times are Unix ms."""

    n: int
    guid: str
    op: str
    # JSON: the input of the operation, the record as it would be, and where the write came from.
    input: str
    candidate: str
    policy: str
    # The writer.
    actor: str
    origin: str
    source: str
    # The guid of the record that would change, "" for a new one, and its version then.
    target: str
    version: str
    at_ms: int
    until_ms: int
    # The last reviewer who changed the content, "" for none.
    editor: str
    # "" while it waits.
    decision: Literal["", "approved", "rejected"]
    decided_by: str
    decided_ms: int
    reason: str
    # JSON: the ids of what was written.
    result: str


COLUMNS = ", ".join(Proposal._fields)
# All columns that a new proposal has.
NEW = Proposal._fields[1 : Proposal._fields.index("editor")]
INSERT = f"INSERT INTO proposals({', '.join(NEW)}) VALUES ({', '.join('?' * len(NEW))})"
GET = f"SELECT {COLUMNS} FROM proposals WHERE guid = ?"
WAITING = f"SELECT 1 FROM proposals WHERE decision = '' LIMIT {MOST_WAITING}"
COUNT_WAITING = f"SELECT count(*) FROM ({WAITING})"
EDIT = "UPDATE proposals SET input = ?, candidate = ?, editor = ? WHERE n = ?"
RENEW = "UPDATE proposals SET input = ?, candidate = ?, version = ? WHERE n = ?"
DECIDE = (
    "UPDATE proposals SET input = '{}', candidate = '{}', decision = ?, decided_by = ?, "
    "decided_ms = ?, until_ms = ?, reason = ?, result = ? WHERE n = ?"
)
# Columns that a list may select by, besides the decision.
FILTERS = ("policy", "source", "actor")


class ProposalTable(StoreTable):
    """Adds, reads and decides proposals inside the store's open transaction."""

    # The last call that was rolled back because the write of a proposal was refused too late, and
    # these refusals by guid.
    _rolled_back: tuple[Hashable, dict[str, Refused]] = ((), {})

    def find_refusals(self, call: Hashable) -> dict[str, Refused]:
        """Return the writes that earlier runs of a call have found to be refused, to add to."""
        if self._rolled_back[0] != call:
            self._rolled_back = (call, {})
        return self._rolled_back[1]

    @property
    def is_full(self) -> bool:
        """Return whether the store has the maximum number of proposals that wait."""
        return bool(self._connection.execute(COUNT_WAITING).get >= MOST_WAITING)

    def add(self, *values: Any) -> None:
        """Add a proposal, its values in the order of NEW."""
        self._connection.execute(INSERT, values)

    def find(self, guid: str) -> Proposal | None:
        """Return the proposal with that guid, decided or not. None if there is none."""
        row = self._connection.execute(GET, (guid,)).fetchone()
        return None if row is None else Proposal(*row)

    def page(
        self, decision: str, filters: dict[str, str], after: int, limit: int
    ) -> Iterator[Proposal]:
        """Yield proposals with that decision and these values: those that wait from number `after`
        on, the oldest first; decided ones from before `after`, the newest first.
        """
        conditions, values = ["decision = ?"], [decision]
        for name in FILTERS:
            if value := filters.get(name):
                conditions.append(f"{name} = ?")
                values.append(value)
        order = "DESC" if decision else ""
        beyond = "(?1 = 0 OR n < ?1)" if decision else "n > ?1"
        which = " AND ".join([beyond, *conditions])
        sql = f"SELECT {COLUMNS} FROM proposals WHERE {which} ORDER BY n {order} LIMIT {limit:d}"
        for row in self._connection.execute(sql, [after, *values]):
            yield Proposal(*row)

    def edit(self, proposal: Proposal, input: str, candidate: str, editor: str) -> None:
        """Change what a proposal would write."""
        self._connection.execute(EDIT, (input, candidate, editor, proposal.n))

    def renew(self, proposal: Proposal, input: str, candidate: str, version: str) -> None:
        """Replace what a proposal would write, because its target has another version now."""
        self._connection.execute(RENEW, (input, candidate, version, proposal.n))

    def decide(self, proposal: Proposal, decided: "Decided", until_ms: int) -> None:
        """Keep a decision until a time. The text of the proposal is deleted."""
        decision, by, at_ms, reason, result = decided
        values = decision, by, at_ms, until_ms, reason, result, proposal.n
        self._connection.execute(DECIDE, values)


class Decided(NamedTuple):
    """A decision, who made it, and when (Unix ms). `result` is JSON."""

    decision: Literal["approved", "rejected"]
    by: str
    at_ms: int
    reason: str
    result: str = EMPTY


class ProposalErasure(ModelErasure):
    """Deletes the proposals that quote what is erased. Their writers got no record yet."""

    def erase(self, matcher: Matcher) -> None:
        """Delete the proposals that the matcher finds."""
        self._delete(lambda texts: any(map(matcher.in_text, texts)) or _in_json(matcher, texts))

    def silence(self, has_erased: Erases) -> int:
        """Delete the proposals with an erased text, and return their number."""
        return self._delete(lambda texts: any(has_erased(text.encode()) for text in texts))

    def forget_waiting(self, guids: Sequence[str]) -> None:
        """Delete the proposals of new records with these guids."""
        run_many = self._connection.executemany
        run_many("DELETE FROM proposals WHERE guid = ?", [(guid,) for guid in guids])

    def forget_record(self, record: State) -> None:
        """Delete the proposals to change an erased record."""
        self._connection.execute("DELETE FROM proposals WHERE target = ?", (record.guid,))

    def _delete(self, matches: Any) -> int:
        run, names = self._connection.execute, ", ".join(TEXTS)
        found = [(n,) for n, *texts in run(f"SELECT n, {names} FROM proposals") if matches(texts)]
        self._connection.executemany("DELETE FROM proposals WHERE n = ?", found)
        return len(found)


def _in_json(matcher: Matcher, texts: Sequence[str]) -> bool:
    return any(matcher.in_data(text.encode()) for text in texts)
