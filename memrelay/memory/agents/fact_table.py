"""The facts of a store: look-ups by key, and searches by the index `fact_texts`.

The SQL names the kind literally and repeats the expression of the index (migration 0021).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from memrelay.memory.agents.fact_search import has_whole_words, parse_fact_query
from memrelay.memory.agents.keyed_table import KeyedTable
from memrelay.memory.records.columns import FURTHER, READ, column_list
from memrelay.memory.records.kinds import FACT_KIND
from memrelay.memory.records.record import Further, Record, record_of
from memrelay.memory.sqlite.filters import UNEXPIRED, Clause
from memrelay.memory.sqlite.records import RecordTable
from memrelay.memory.tallies import COUNTS, Tally

# Facts with the words in their key come first.
IN_KEY, IN_VALUE, IN_WORDS = 2, 1, 0
TEXT = (
    "CAST(ifnull(json_extract(r.data,'$.folded'), "
    "lower(r.key || char(31) || substr(r.content, length(r.key) + 3))) AS TEXT)"
)
BASE = "CAST(json_extract(r.data,'$.base') AS REAL)"
GOOD, BAD = "ifnull(t.good, 0)", "ifnull(t.bad, 0)"
CONFIDENCE = f"{BASE} * ({GOOD} + 1) / ({GOOD} + {BAD} + 1.0)"
COLUMNS = f"{column_list(READ, 'r.')}, 0.0, {column_list(FURTHER, 'r.')}"
# Columns of a row before the further fields and before the tally.
WIDTH = len(Record._fields)
TALLY_AT = WIDTH + len(Further._fields)
# Candidates contain all words. LIKE finds those with the words in order.
RANK = (
    f"CASE WHEN {TEXT} LIKE ? ESCAPE '!' THEN {IN_KEY} "
    f"WHEN {TEXT} LIKE ? ESCAPE '!' THEN {IN_VALUE} ELSE {IN_WORDS} END"
)
# A fact of which all required texts are known to be there.
MATCHES = (
    f"({TEXT} LIKE ? ESCAPE '!' OR {TEXT} LIKE ? ESCAPE '!' OR fact_has_words({TEXT}, r.parts, ?))"
)
# It reads only the two indexes.
CANDIDATES = (
    f"SELECT r.row, {RANK} AS rank, {CONFIDENCE} AS confidence "
    "FROM records AS r INDEXED BY fact_texts "
    "LEFT JOIN tallies AS t INDEXED BY tallies_bad ON t.guid = r.guid AND t.bad > 0 "
    "WHERE r.kind = 'memory.fact' AND {0} AND confidence >= ? "
    "ORDER BY confidence DESC, rank DESC, r.updated_at DESC, r.row DESC LIMIT ?"
)
AT_ROW = (
    f"SELECT {COLUMNS}, {COUNTS}, {TEXT}, r.parts FROM records AS r "
    "LEFT JOIN tallies AS t ON t.guid = r.guid WHERE r.row = ? AND r.kind = 'memory.fact'"
)
# Candidates are read in two steps, because most of the first ones match.
FIRST_CANDIDATES = 200
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
    """Return the condition on `records AS r` that a fact of any scope matches a query."""
    wanted = parse_fact_query(query)
    if not wanted.words:
        return "0", ()
    contains = f"instr({TEXT}, ?) > 0 AND " * len(wanted.required)
    patterns = (wanted.pattern_in_key, wanted.pattern_in_value)
    return f"{contains}{MATCHES}", (*wanted.required, *patterns, query)


class FactTable(KeyedTable):
    """Finds and writes facts inside the store's open transaction.

    It registers the SQL function `fact_has_words(text, parts, query)`.
    """

    def __init__(self, connection: apsw.Connection, records: RecordTable) -> None:
        super().__init__(connection, records, FACT_KIND, "fact_keys")
        connection.create_scalar_function("fact_has_words", _has_words, 3, deterministic=True)

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
        wanted = parse_fact_query(query)
        if not wanted.words:
            return iter(())
        self._records.flush()
        found = list(self._matches(query, within, within.limit + FIRST_CANDIDATES))
        if None in found:
            found = list(self._matches(query, within, -1))
        return (fact for fact in found if fact is not None)

    def _matches(self, query: str, within: FactFilter, most: int) -> Iterator[StoredFact | None]:
        """Yield the best matches among up to `most` candidates, -1 for all.

        The last one is None if more candidates may match.
        """
        wanted = parse_fact_query(query)
        which, values = self._conditions(wanted.required, within)
        patterns = (wanted.pattern_in_key, wanted.pattern_in_value)
        ends = (within.min_confidence, most)
        found = self._connection.execute(CANDIDATES.format(which), (*patterns, *values, *ends))
        candidates: list[Any] = found.fetchall()
        left = within.limit
        for row, rank, _ in candidates:
            if not left:
                return
            for *stored, text, parts in self._connection.execute(AT_ROW, (row,)):
                if rank > IN_WORDS or has_whole_words(text, parts, query):
                    left -= 1
                    yield _stored_fact(stored)
        if left and len(candidates) == most:
            yield None

    def _conditions(
        self, required: Sequence[str], within: FactFilter
    ) -> tuple[str, list[str | int]]:
        """Return the conditions that select candidates, and their values."""
        clauses = [f"r.scope IN ({_placeholders(within.scopes)})"]
        values: list[str | int] = [*within.scopes, *required]
        clauses += [f"instr({TEXT}, ?) > 0"] * len(required)
        if within.fact_types:
            types = _placeholders(within.fact_types)
            clauses.append(f"json_extract(r.data,'$.fact_type') IN ({types})")
            values += within.fact_types
        if self._records.expiry.concerns:
            clauses.append(UNEXPIRED)
            values.append(self._records.versions.now_ms)
        return " AND ".join(clauses), values


def _has_words(*given: Any) -> bool:
    return has_whole_words(*given)


def _stored_fact(row: Sequence[Any]) -> StoredFact:
    record, further = record_of(row[:WIDTH]), Further._make(row[WIDTH:TALLY_AT])
    return StoredFact(record, further, Tally._make(row[TALLY_AT:]))


def _placeholders(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))
