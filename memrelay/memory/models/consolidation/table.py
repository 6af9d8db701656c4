"""The tables of consolidation: how far it has read, and what it has proposed."""

from collections.abc import Iterator
from typing import NamedTuple

from memrelay.memory.engine.table import StoreTable
from memrelay.memory.models.reviews.table import ProposalTable

# The indexes of kinds and scopes also have the row, so that a slice reads only its own entries.
SCAN = (
    "SELECT r.row, r.guid, r.born, r.updated_at, r.valid_to, e.confirmed_at "
    "FROM records AS r LEFT JOIN entries AS e ON e.guid = r.guid "
    "WHERE r.kind = 'entry' AND r.row > ?1{} ORDER BY r.row LIMIT ?2"
)
IN_MEMORY = " AND r.scope = ?3"
GET_PASS = "SELECT position, since, began FROM consolidation_passes WHERE name = ?"
PUT_PASS = "INSERT OR REPLACE INTO consolidation_passes VALUES (?, ?, ?, ?)"
FIND = "SELECT proposal FROM consolidation_findings WHERE digest = ?"
ADD = "INSERT OR IGNORE INTO consolidation_findings VALUES (?, ?, ?)"
REMOVES = "SELECT proposal FROM consolidation_findings WHERE removes = ?"


class Pass(NamedTuple):
    """A pass over the entries: its position, and the changes that it compares."""

    # The row of the last entry that it has looked at, 0 before a pass.
    position: int = 0
    # Entries made by later changes than this number are compared.
    since: int = -1
    # The number of the last change when the pass began.
    began: int = -1


class ScannedEntry(NamedTuple):
    """An entry without its text. Times are Unix ms."""

    row: int
    guid: str
    # The number of the change that made its present state.
    born: int
    updated_at: int
    valid_to: int | None
    confirmed_at: int | None

    @property
    def last_at(self) -> int:
        """Return when it was last written, changed or confirmed."""
        return max(self.updated_at, self.confirmed_at or 0)


class ConsolidationTable(StoreTable):
    """Reads and writes the state of consolidation inside the store's open transaction."""

    def scan(self, after: int, limit: int, memory: str) -> Iterator[ScannedEntry]:
        """Yield entries after a row, of one memory or, with "", of all."""
        sql, values = SCAN.format(IN_MEMORY if memory else ""), [after, limit]
        for row in self._connection.execute(sql, [*values, memory] if memory else values):
            yield ScannedEntry(*row)

    def find_pass(self, name: str) -> Pass:
        """Return the pass of an agent."""
        row = self._connection.execute(GET_PASS, (name,)).fetchone()
        return Pass() if row is None else Pass(*row)

    def put_pass(self, name: str, state: Pass) -> None:
        """Keep the pass of an agent."""
        self._connection.execute(PUT_PASS, (name, *state))

    def find_proposal(self, digest: bytes) -> str:
        """Return the guid of the proposal of a finding, "" if it was not proposed."""
        return self._connection.execute(FIND, (digest,)).get or ""

    def add(self, digest: bytes, proposal: str, removes: str) -> None:
        """Keep that a finding was proposed."""
        self._connection.execute(ADD, (digest, proposal, removes))

    def list_removals(self, guid: str) -> list[str]:
        """Return the guids of the proposals, also decided ones, to delete an entry."""
        return [proposal for (proposal,) in self._connection.execute(REMOVES, (guid,))]


def waits_for_removal(table: ConsolidationTable, proposals: ProposalTable, guid: str) -> bool:
    """Return whether a proposal to delete an entry waits for review."""
    found = map(proposals.find, table.list_removals(guid))
    return any(one is not None and not one.decision for one in found)
