"""The facts of a store: look-ups by key, and searches by the index `fact_texts`.

The SQL names the kind literally and repeats the expression of the index (migration 0021).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from memrelay.memory.agents.fact_search import NO_MATCH, parse_fact_query, rank
from memrelay.memory.agents.keyed_table import KeyedTable
from memrelay.memory.records.columns import FURTHER, READ, column_list
from memrelay.memory.records.kinds import FACT_KIND
from memrelay.memory.records.record import Further, Record, record_of
from memrelay.memory.sqlite.filters import UNEXPIRED, Clause
from memrelay.memory.sqlite.records import RecordTable
from memrelay.memory.tallies import COUNTS, Tally

TEXT = (
    "ifnull(json_extract(r.data,'$.folded'), "
    "lower(r.key || char(31) || substr(r.content, length(r.key) + 3)))"
)
BASE = "json_extract(r.data,'$.base')"
GOOD, BAD = "ifnull(t.good, 0)", "ifnull(t.bad, 0)"
CONFIDENCE = f"{BASE} * ({GOOD} + 1) / ({GOOD} + {BAD} + 1.0)"
COLUMNS = f"{column_list(READ, 'r.')}, 0.0, {column_list(FURTHER, 'r.')}"
# Columns of a row before the further fields and before the tally.
WIDTH = len(Record._fields)
TALLY_AT = WIDTH + len(Further._fields)
RANK = "fact_rank(hits.text, r.content, ?)"
CANDIDATES = (
    f"SELECT r.row AS row, {TEXT} AS text FROM records AS r INDEXED BY fact_texts "
    "WHERE r.kind = 'memory.fact'"
)
SEARCH = (
    "WITH hits AS MATERIALIZED ({candidates}) "
    f"SELECT {COLUMNS}, {COUNTS} "
    "FROM hits CROSS JOIN records AS r ON r.row = hits.row "
    f"LEFT JOIN tallies AS t ON t.guid = r.guid WHERE {RANK} > {NO_MATCH} AND {{further}} "
    f"ORDER BY {CONFIDENCE} DESC, {RANK} DESC, r.updated_at DESC, r.row DESC LIMIT ?"
)
VISIBLE = (
    f"SELECT {COLUMNS}, {COUNTS} FROM records AS r INDEXED BY fact_changes "
    "LEFT JOIN tallies AS t ON t.guid = r.guid WHERE r.kind = 'memory.fact' AND r.scope IN ({0}) "
    "AND {1} ORDER BY r.updated_at DESC, r.row DESC LIMIT ?"
)


class StoredFact(NamedTuple):
    """A fact with its counters."""

    record: Record
    further: Further
    tally: Tally


class FactFilter(NamedTuple):
    """Which facts a search may find."""

    # The scopes of the facts.
    scopes: Sequence[str]
    # Any of these types. Empty: every type.
    fact_types: Sequence[str] = ()
    min_confidence: float = 0.0
    limit: int = 10


def matching(query: str) -> Clause:
    """Return the condition on `records AS r` that a fact matches a query, in any scope."""
    required = parse_fact_query(query).required
    if not required:
        return "0", ()
    contains = f"instr({TEXT}, ?) > 0 AND " * len(required)
    return f"{contains}fact_rank({TEXT}, r.content, ?) > {NO_MATCH}", (*required, query)


class FactTable(KeyedTable):
    """Finds and writes facts inside the store's open transaction.

    It registers the SQL function `fact_rank(text, content, query)`.
    """

    def __init__(self, connection: apsw.Connection, records: RecordTable) -> None:
        super().__init__(connection, records, FACT_KIND, "fact_keys")
        connection.create_scalar_function("fact_rank", _rank, 3, deterministic=True)

    def newest(self, scopes: Sequence[str], limit: int) -> Iterator[StoredFact]:
        """Yield the facts of these scopes, the newest change first."""
        self._records.flush()
        sql = VISIBLE.format(_placeholders(scopes), UNEXPIRED)
        values = (*scopes, self._records.versions.now_ms, limit)
        return map(_stored_fact, self._connection.execute(sql, values))

    def search(self, query: str, within: FactFilter) -> Iterator[StoredFact]:
        """Yield the facts that match a query, the best first.

        The order is confidence, matches in keys before others, and the newest change.
        """
        required = parse_fact_query(query).required
        if not required:
            return iter(())
        self._records.flush()
        candidates = CANDIDATES + f" AND r.scope IN ({_placeholders(within.scopes)})"
        candidates += f" AND instr({TEXT}, ?) > 0" * len(required)
        further = f"{UNEXPIRED} AND {CONFIDENCE} >= ?"
        if within.fact_types:
            types = _placeholders(within.fact_types)
            further += f" AND json_extract(r.data,'$.fact_type') IN ({types})"
        sql = SEARCH.format(candidates=candidates, further=further)
        which = (*within.scopes, *required)
        conditions = (self._records.versions.now_ms, within.min_confidence, *within.fact_types)
        values = (*which, query, *conditions, query, within.limit)
        return map(_stored_fact, self._connection.execute(sql, values))


def _rank(*given: Any) -> int:
    return rank(*given)


def _stored_fact(row: tuple[Any, ...]) -> StoredFact:
    record, further = record_of(row[:WIDTH]), Further._make(row[WIDTH:TALLY_AT])
    return StoredFact(record, further, Tally._make(row[TALLY_AT:]))


def _placeholders(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))
