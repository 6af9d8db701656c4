"""The rows of policies: those of the store and of bundles, their limits, counts and verdicts."""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import proxy

import orjson

from memrelay.memory.engine.filter_sql import UNEXPIRED
from memrelay.memory.engine.origins import Origin
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.versions import StoredRecord, stored_records
from memrelay.memory.models.policies.rules import RuleSet

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

KEY_BYTES = 16
# Verdicts that are kept.
MOST_VERDICTS = 10_000
ALL = (
    "SELECT policy, pipeline, changed_at FROM ("
    "SELECT policy, pipeline, changed_at, 0 AS level, position FROM declared_policies "
    "UNION ALL SELECT policy, '', changed_at, 1, position FROM policies"
    ") ORDER BY level, pipeline, position"
)
PUT = (
    "INSERT INTO policies(name, policy, changed_at) VALUES (?, ?, ?) ON CONFLICT(name) "
    "DO UPDATE SET policy = excluded.policy, changed_at = excluded.changed_at"
)
DECLARE = "INSERT INTO declared_policies VALUES (?, ?, ?, ?, ?)"
DECLARED = "SELECT policy FROM declared_policies WHERE pipeline = ? ORDER BY position"
PUT_LIMIT = "INSERT OR REPLACE INTO policy_limits VALUES (?, ?, ?, ?)"
FIND_LIMIT = "SELECT ends_at, writes FROM policy_limits WHERE policy = ? AND source = ?"
DELETE_ENDED = "DELETE FROM policy_limits WHERE policy = ? AND ends_at <= ?"
ADD_VERDICT = "INSERT INTO policy_verdicts(at, policy, action, guid, actor) VALUES (?, ?, ?, ?, ?)"
DELETE_OLD = (
    f"DELETE FROM policy_verdicts WHERE n <= (SELECT max(n) FROM policy_verdicts) - {MOST_VERDICTS}"
)
ADD_COUNT = (
    "INSERT INTO policy_counts VALUES (?1, ?2, ?3, ?4) ON CONFLICT(policy, action) "
    "DO UPDATE SET total = total + ?3, last_at = max(last_at, ?4)"
)
RECORDS_AFTER = f" WHERE row > ? AND {UNEXPIRED} ORDER BY row LIMIT ?"
HAS_AFTER = "SELECT EXISTS (SELECT 1 FROM records WHERE row > ?)"
COUNTS = "SELECT policy, action, total, last_at FROM policy_counts ORDER BY policy, action"


class StoredPolicy(NamedTuple):
    """A policy of a store. `pipeline` is that whose bundle declares it, "" for none."""

    # JSON.
    policy: str
    pipeline: str
    changed_at: int


class StoredVerdict(NamedTuple):
    """The action of a policy on a write, without the found value. `at` is Unix ms."""

    at: int
    policy: str
    action: str
    guid: str
    actor: str


def declare_policies(
    store: "Store", pipeline: str, policies: Sequence[Mapping[str, Any]], now_ms: int
) -> None:
    """Write the policies that the bundle of a pipeline declares for a store, if they differ from
    those that the file has.
    """
    table = store.table(PolicyTable)
    if table.declared_by(pipeline) != list(policies):
        with store.transaction():
            table.declare(pipeline, policies, now_ms)


class PolicyTable(StoreTable):
    """Reads and writes the policies of a store inside its open transaction."""

    READS = (
        "all",
        "counts",
        "has_records_after",
        "key",
        "load_rules",
        "origin_of",
        "records_after",
        "verdicts",
    )

    def __init__(self, store: "Store") -> None:
        super().__init__(store)
        self._store = proxy(store)
        # The compiled policies and the key of digests; None until `load_rules`.
        self.rules: RuleSet | None = None
        self.key = b""

    def reset(self) -> None:
        """Forget the compiled policies, after a rollback or another owner's writes."""
        self.rules = None

    def load_rules(self) -> RuleSet:
        """Return the compiled policies."""
        self.key = self._connection.execute("SELECT key FROM policy_keys").get or b""
        self.rules = RuleSet(one.policy for one in self.all())
        return self.rules

    def all(self) -> list[StoredPolicy]:
        """Return all policies in their order: those of bundles first."""
        return [StoredPolicy(*row) for row in self._connection.execute(ALL)]

    def records_after(self, row: int, limit: int) -> Iterator[StoredRecord]:
        """Return up to `limit` records after a row, in their order. Expired ones are left out."""
        self._records.flush()
        now_ms = self._records.versions.now_ms
        return stored_records(self._connection, RECORDS_AFTER, [row, now_ms, limit])

    def origin_of(self, stored: StoredRecord) -> Origin:
        """Return the origin of the present state of a record."""
        return self._records.versions.origins.find(stored.state.origin) or Origin("")

    def has_records_after(self, row: int) -> bool:
        """Return whether there are records after a row."""
        return bool(self._connection.execute(HAS_AFTER, (row,)).get)

    def put(self, policy: Mapping[str, Any], now_ms: int) -> None:
        """Add a policy, or replace the one with its name."""
        self._connection.execute(PUT, (policy["name"], orjson.dumps(policy).decode(), now_ms))
        self._apply_change()

    def put_row(self, row: Mapping[str, Any]) -> None:
        """Write a policy of an export: a row by its columns."""
        self.put(orjson.loads(row["policy"]), row["changed_at"])

    def delete(self, name: str) -> bool:
        """Delete a policy that no bundle declares. Return whether there was one."""
        self._connection.execute("DELETE FROM policies WHERE name = ?", (name,))
        was_there = bool(self._connection.changes())
        self._apply_change()
        return was_there

    def declared_by(self, pipeline: str) -> list[dict[str, Any]]:
        """Return the policies that the bundle of a pipeline declares."""
        return [orjson.loads(text) for (text,) in self._connection.execute(DECLARED, (pipeline,))]

    def declare(self, pipeline: str, policies: Sequence[Mapping[str, Any]], now_ms: int) -> None:
        """Replace the policies that the bundle of a pipeline declares."""
        self._connection.execute("DELETE FROM declared_policies WHERE pipeline = ?", (pipeline,))
        self._connection.executemany(
            DECLARE,
            (
                (pipeline, policy["name"], at, orjson.dumps(policy).decode(), now_ms)
                for at, policy in enumerate(policies)
            ),
        )
        self._apply_change()

    def _apply_change(self) -> None:
        """Let the writes from now on follow the policies as they are now."""
        key = secrets.token_bytes(KEY_BYTES)
        self._connection.execute("INSERT OR IGNORE INTO policy_keys VALUES (1, ?)", (key,))
        self.rules = None
        self._store.refresh_features()

    def find_limit(self, policy: str, source: str) -> tuple[int, int]:
        """Return the end of the window of a source (Unix ms) and the writes in it."""
        found = self._connection.execute(FIND_LIMIT, (policy, source)).fetchone()
        return (0, 0) if found is None else (int(found[0]), int(found[1]))

    def put_limits(self, limits: Iterable[tuple[str, str, int, int]], now_ms: int) -> None:
        """Write (policy, source, end of the window, writes). Windows that have ended go."""
        rows = list(limits)
        self._connection.executemany(PUT_LIMIT, rows)
        for policy in {row[0] for row in rows}:
            self._connection.execute(DELETE_ENDED, (policy, now_ms))

    def add_verdicts(self, verdicts: Sequence[StoredVerdict]) -> None:
        """Add verdicts, count them, and delete the oldest ones."""
        self._connection.executemany(ADD_VERDICT, verdicts)
        self._connection.execute(DELETE_OLD)
        counts: dict[tuple[str, str], tuple[int, int]] = {}
        for one in verdicts:
            total, last_at = counts.get((one.policy, one.action), (0, 0))
            counts[one.policy, one.action] = total + 1, max(last_at, one.at)
        self._connection.executemany(ADD_COUNT, ((*key, *value) for key, value in counts.items()))

    def counts(self) -> list[tuple[str, str, int, int]]:
        """Return (policy, action, total, time of the last one in Unix ms)."""
        return [(*row,) for row in self._connection.execute(COUNTS)]

    def verdicts(
        self, before: int, limit: int, policy: str, action: str
    ) -> Iterator[tuple[int, StoredVerdict]]:
        """Yield (number, verdict), the newest first. "" stands for any policy and action."""
        sql = (
            "SELECT n, at, policy, action, guid, actor FROM policy_verdicts "
            "WHERE n < ?1 AND (?2 = '' OR policy = ?2) AND (?3 = '' OR action = ?3) "
            f"ORDER BY n DESC LIMIT {limit:d}"
        )
        for n, *row in self._connection.execute(sql, (before, policy, action)):
            yield n, StoredVerdict(*row)
