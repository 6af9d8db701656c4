"""The procedures of a store, by name and by success. The SQL names the kind literally."""

from collections.abc import Iterator

import apsw

from memrelay.memory.agents.keyed_table import KeyedTable
from memrelay.memory.records.columns import FURTHER, READ, column_list
from memrelay.memory.records.kinds import PROCEDURE_KIND
from memrelay.memory.records.record import Further, Record, record_of
from memrelay.memory.sqlite.filters import UNEXPIRED
from memrelay.memory.sqlite.records import RecordTable
from memrelay.memory.tallies import COUNTS, Tally

WIDTH = len(Record._fields)
TALLY_AT = WIDTH + len(Further._fields)
BY_SUCCESS = (
    f"SELECT {column_list(READ, 'r.')}, 0.0, {column_list(FURTHER, 'r.')}, {COUNTS} "
    "FROM records AS r LEFT JOIN tallies AS t ON t.guid = r.guid "
    f"WHERE r.kind = 'memory.procedure' AND {UNEXPIRED} {{0}}"
    "ORDER BY ifnull(t.good, 0) DESC, r.updated_at DESC, r.row DESC"
)


class ProcedureTable(KeyedTable):
    """Finds and writes procedures inside the store's open transaction."""

    def __init__(self, connection: apsw.Connection, records: RecordTable) -> None:
        super().__init__(connection, records, PROCEDURE_KIND, "procedure_keys")

    def by_success(self, scope: str) -> Iterator[tuple[Record, Further, Tally]]:
        """Yield the procedures of a scope, "" for all, the most successful first."""
        self._records.flush()
        sql = BY_SUCCESS.format("AND r.scope = ? " if scope else "")
        values = [self._records.versions.now_ms, *([scope] if scope else [])]
        for row in self._connection.execute(sql, values):
            record, further = record_of(row[:WIDTH]), Further._make(row[WIDTH:TALLY_AT])
            yield record, further, Tally._make(row[TALLY_AT:])
