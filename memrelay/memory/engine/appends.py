"""Appended texts of long records, kept as rows until the record is read.

Rewriting and indexing the whole text at each append would be quadratic. So an append to a long
record stores only the new text. The texts are merged into the content before the record is read
or changed, before any search, and when the worker is idle.
"""

from collections import OrderedDict
from typing import Any
from zlib import crc32

import apsw

from memrelay.memory.engine.filter_sql import has_expired, where
from memrelay.memory.engine.rows import RowInsert
from memrelay.memory.engine.versions import StoredRecord, stored_records
from memrelay.memory.records import columns
from memrelay.memory.records.record import content_checksum
from memrelay.memory.search.text.words import parts_of

# Characters from which on a record is long.
LONG = 4096
# A search merges all texts first. These bounds limit its delay to about 0.3 s.
MAX_RECORDS, MAX_CHARACTERS = 32, 4 << 20
INSERT = RowInsert("appended", "row, text, changed_at, born, origin")
ROWS = "SELECT DISTINCT row FROM appended"
TEXTS = "SELECT text, changed_at, born, origin FROM appended WHERE row = ? ORDER BY n"
MERGE = (
    "UPDATE records SET content = ?, parts = ?, updated_at = ?, born = ?, origin = ?, "
    "number = number + ?, crc = crc & 0x7FFFFFFF00000000 | ? WHERE row = ?"
)
DELETE = "DELETE FROM appended WHERE row = ?"
NUMBER, UPDATED_AT, BORN, ORIGIN, CRC, KIND, EXPIRES_AT, DATA = map(
    columns.STATE.index,
    ("number", "updated_at", "born", "origin", "crc", "kind", "expires_at", "data"),
)
LOWER_BITS = 0xFFFFFFFF
# Characters of the end of a long record with which a text to append is checked.
SEAM = 512
END_OF_CONTENT = "SELECT substr(content, ?) FROM records WHERE row = ?"
# Entries of named memories are compared with new ones, which needs their current lines.
ENTRY = "entry"


class LongRecord:
    """A long record with its appended texts, without its content."""

    __slots__ = ("end", "length", "row", "size", "state")

    def __init__(self, place: StoredRecord) -> None:
        self.row, self.state = place.row, place.values
        # The last SEAM characters, None if they are not known.
        self.end: str | None = place.content[-SEAM:]
        self.length, self.size = len(place.content), len(place.content.encode())

    @property
    def guid(self) -> str:
        """Return the record's guid."""
        return str(self.state[0])

    @property
    def data(self) -> str:
        """Return the record's data as text, "" for none."""
        return self.state[DATA] or ""

    def extend(self, text: str, now_ms: int, change: tuple[int, int]) -> None:
        """Update the state to that after an append. `change` has the numbers of the change and of
        its origin.
        """
        encoded, state = text.encode(), list(self.state)
        self.length, self.size = self.length + len(text), self.size + len(encoded)
        self.end = None
        state[NUMBER], state[UPDATED_AT] = state[NUMBER] + 1, now_ms
        state[BORN], state[ORIGIN] = change
        if (crc := state[CRC]) is not None:
            state[CRC] = crc & ~LOWER_BITS | crc32(encoded, crc & LOWER_BITS)
        self.state = tuple(state)


class AppendTable:
    """Reads and writes appended texts inside the store's open transaction.

    Rows are buffered until the commit or the merge.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._new: list[tuple[Any, ...]] = []
        # By row, the least recently used first. None: the record was not read since the start.
        self._records: OrderedDict[int, LongRecord | None] = OrderedDict()
        self._by_guid: dict[str, LongRecord] = {}

    def __bool__(self) -> bool:
        """Return whether a record has appended texts."""
        return bool(self._records)

    def __contains__(self, row: object) -> bool:
        return row in self._records

    def reset(self) -> None:
        """Drop buffered rows and read the committed state."""
        self._new.clear()
        self._by_guid.clear()
        found = self._connection.execute(ROWS)
        self._records = OrderedDict((row, None) for (row,) in found)

    def flush(self) -> None:
        """Insert the buffered rows."""
        if self._new:
            INSERT.run(self._connection, self._new)
            self._new.clear()

    def by_guid(self, guid: str, now_ms: int) -> LongRecord | None:
        """Return a record with appended texts, None if it has none or has expired."""
        found = self._by_guid.get(guid)
        return None if found is None or has_expired(found.state[EXPIRES_AT], now_ms) else found

    def oldest(self, clauses: list[str], values: list[Any]) -> LongRecord | None:
        """Return the first record that meets the conditions on `records AS r`, None if there is
        none, or if it has no appended texts or is not known yet.
        """
        sql = f"SELECT row FROM records AS r{where(*clauses)} ORDER BY row LIMIT 1"
        row: int | None = self._connection.execute(sql, values).get
        return None if row is None else self._records.get(row)

    def start(self, place: StoredRecord) -> LongRecord | None:
        """Return a record to append to, None if its content is changed at once."""
        if len(place.content) < LONG or place.values[KIND] == ENTRY:
            return None
        record = self._records[place.row] = LongRecord(place)
        self._by_guid[record.guid] = record
        return record

    def add(self, record: LongRecord, text: str, now_ms: int, change: tuple[int, int]) -> None:
        """Append a text to a record. `change` has the numbers of the change and of its origin."""
        self._new.append((record.row, text, now_ms, *change))
        record.extend(text, now_ms, change)
        self._records.move_to_end(record.row)

    def find_end(self, record: LongRecord) -> str:
        """Return the last SEAM characters of a record."""
        if record.end is None:
            self.flush()
            content = self._connection.execute(END_OF_CONTENT, (-SEAM, record.row)).get
            added = [text for text, *_ in self._connection.execute(TEXTS, (record.row,))]
            record.end = "".join((content, *added))[-SEAM:]
        return record.end

    @property
    def surplus(self) -> int | None:
        """Return the row to merge because there are too many texts, None for none."""
        length = sum(record.length for record in self._by_guid.values())
        is_surplus = len(self._records) > MAX_RECORDS or length > MAX_CHARACTERS
        return next(iter(self._records)) if is_surplus and len(self._records) > 1 else None

    def rows(self) -> list[int]:
        """Return the rows of all records with appended texts."""
        return list(self._records)

    def merge(self, row: int) -> StoredRecord | None:
        """Merge the texts of a record into its content. Return the record before the merge."""
        self.flush()
        texts: list[Any] = self._connection.execute(TEXTS, (row,)).fetchall()
        self._connection.execute(DELETE, (row,))
        if (record := self._records.pop(row, None)) is not None:
            del self._by_guid[record.guid]
        place = next(stored_records(self._connection, " WHERE row = ?", [row]), None)
        if place is None or not texts:
            return None
        content = place.content + "".join([text for text, *_ in texts])
        _, updated_at, born, origin = texts[-1]
        crc = content_checksum(content)
        values = (content, parts_of(content), updated_at, born, origin, len(texts), crc, row)
        self._connection.execute(MERGE, values)
        return place
