"""How far an agent has read the turns of a store, and what became of them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from weakref import proxy

import orjson

from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.versions import StoredRecord, stored_records

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

# Turns that wait for one agent and are looked at together.
WINDOW = 1000
# Turns of which `count_waiting` looks at, at most.
MOST_COUNTED = 10_000
MAX_ERROR = 300  # characters


class Progress(NamedTuple):
    """The row of an agent. The migration describes the columns; the totals are:

    - `batches`: those that became records. `created`, `updated`, `skipped`: records by the action
      of the write. `held`: for review. `refused`: by a policy. `invalid`: parts of answers.
    - `rejected`, `rejected_turns`: batches without a useful answer, and their turns.
    """

    pipeline: str
    agent: str
    block: str
    settings: str = "{}"
    read_to: int = 0
    done: str = "[]"
    call: str = ""
    until_ms: int = 0
    batch: str = "[]"
    attempts: int = 0
    failures: int = 0
    retry_ms: int = 0
    period_ms: int = 0
    calls: int = 0
    tokens: int = 0
    batches: int = 0
    created: int = 0
    updated: int = 0
    skipped: int = 0
    held: int = 0
    refused: int = 0
    invalid: int = 0
    rejected: int = 0
    rejected_turns: int = 0
    error: str = ""
    error_ms: int = 0
    ran_ms: int = 0

    @property
    def done_rows(self) -> frozenset[int]:
        """Return the rows after `read_to` that are done."""
        return frozenset(orjson.loads(self.done))

    @property
    def batch_turns(self) -> list[tuple[int, str]]:
        """Return (row, guid) of the turns of the open call."""
        return [(row, guid) for row, guid in orjson.loads(self.batch)]

    def with_error(self, error: str, now_ms: int) -> "Progress":
        """Return the row with the last error, shortened to one line."""
        line = "".join(filter(str.isprintable, " ".join(error.split())))
        return self._replace(error=line[:MAX_ERROR], error_ms=now_ms)

    def with_done(self, rows: Sequence[int]) -> "Progress":
        """Return the row after a batch whose turns are done."""
        done = sorted({*self.done_rows, *rows})
        return self._replace(done=orjson.dumps(done).decode(), batch="[]", attempts=0)


class Turn(NamedTuple):
    """A turn that waits. `user` is None if it has none."""

    row: int
    guid: str
    thread: str
    user: str | None
    length: int  # characters


COLUMNS = ", ".join(Progress._fields)
FIND = f"SELECT {COLUMNS} FROM extractors WHERE pipeline = ? AND agent = ?"
ALL = f"SELECT {COLUMNS} FROM extractors ORDER BY pipeline, agent"
MARKS = ", ".join("?" * len(Progress._fields))
PUT = f"INSERT OR REPLACE INTO extractors({COLUMNS}) VALUES ({MARKS})"
ROLE = "coalesce(r.data ->> '$.role', 'user')"
WAITING = (
    "SELECT r.row, r.guid, coalesce(r.thread, ''), r.owner, length(r.content) FROM records AS r "
    f"WHERE r.kind = ?1 AND r.row > ?2 AND {ROLE} IN (SELECT value FROM json_each(?3)) "
    "AND (r.expires_at IS NULL OR r.expires_at > ?4) ORDER BY r.row LIMIT ?5"
)
EARLIER = (
    " WHERE r.kind = ? AND r.thread = ? AND r.owner IS ? AND r.row <= ? "
    f"AND {ROLE} IN (SELECT value FROM json_each(?)) ORDER BY r.seq DESC, r.row DESC LIMIT ?"
)
SUMMARY = (
    " WHERE r.kind = 'summary' AND r.thread = ? AND r.owner IS ? ORDER BY r.seq DESC, r.row DESC "
    "LIMIT 1"
)
LAST_ROW = "SELECT coalesce(max(row), 0) FROM records"
Wants = Callable[[str], bool]


class ProgressTable(StoreTable):
    """Reads and writes the progress of agents, and the turns that wait for them, inside the store's
    open transaction.
    """

    READS = ("list_all", "count_waiting")

    def __init__(self, store: "Store") -> None:
        super().__init__(store)
        self._store = proxy(store)

    def find(self, pipeline: str, agent: str, block: str) -> Progress:
        """Return the progress of an agent. It is new if another block had the alias."""
        row = self._connection.execute(FIND, (pipeline, agent)).fetchone()
        found = Progress(pipeline, agent, block) if row is None else Progress(*row)
        return found if found.block == block else Progress(pipeline, agent, block)

    def list_all(self) -> list[Progress]:
        """Return the progress of all agents."""
        return [Progress(*row) for row in self._connection.execute(ALL)]

    def put(self, progress: Progress) -> None:
        """Write a row. The first one switches the feature on."""
        self._connection.execute(PUT, progress)
        if not self._store.has_feature("extraction"):
            self._store.refresh_features()

    def take_waiting(
        self, progress: Progress, kind: str, roles: Sequence[str], wants: Wants, now_ms: int
    ) -> tuple[Progress, list[Turn]]:
        """Return turns that wait, the oldest first, and the progress without those before them.

        `wants` decides by the name of a thread. At most WINDOW turns are looked at.
        """
        self._records.flush()
        values = kind, progress.read_to, orjson.dumps(roles).decode(), now_ms, WINDOW
        seen = [Turn(*row) for row in self._connection.execute(WAITING, values)]
        done = progress.done_rows
        waiting = [turn for turn in seen if turn.row not in done and wants(turn.thread)]
        passed = seen[-1].row if seen else progress.read_to
        read_to = waiting[0].row - 1 if waiting else passed
        left = orjson.dumps(sorted(row for row in done if row > read_to)).decode()
        return progress._replace(read_to=read_to, done=left), waiting

    def count_waiting(
        self, progress: Progress, kind: str, roles: Sequence[str], wants: Wants, now_ms: int
    ) -> int:
        """Return how many turns wait, among the next MOST_COUNTED."""
        values = kind, progress.read_to, orjson.dumps(roles).decode(), now_ms, MOST_COUNTED
        done = progress.done_rows
        return sum(
            row not in done and wants(thread)
            for row, _, thread, *_ in self._connection.execute(WAITING, values)
        )

    def read(self, turns: Sequence[Turn]) -> list[tuple[int, StoredRecord]]:
        """Return the records of turns with their rows, in their order."""
        found = ((turn.row, self._records.by_guid(turn.guid)) for turn in turns)
        return [(row, stored) for row, stored in found if stored is not None]

    def read_earlier(
        self, last: Turn, kind: str, roles: Sequence[str], limit: int
    ) -> list[StoredRecord]:
        """Return the newest turns of a thread and user up to a turn, the oldest first."""
        values = [kind, last.thread, last.user, last.row, orjson.dumps(roles).decode(), limit]
        return [*stored_records(self._connection, EARLIER, values)][::-1]

    def find_summary(self, thread: str, user: str | None) -> StoredRecord | None:
        """Return the summary of the turns of a user in a thread, None if there is none."""
        return next(stored_records(self._connection, SUMMARY, [thread, user]), None)

    def limit_rows(self) -> None:
        """Take back cursors behind the last row: SQLite gives the rows of deleted turns to new
        ones.
        """
        last = self._connection.execute(LAST_ROW).get
        for one in self.list_all():
            done = one.done_rows
            if max((one.read_to, *done)) > last:
                left = orjson.dumps(sorted(row for row in done if row <= last)).decode()
                self.put(one._replace(read_to=min(one.read_to, last), done=left))
