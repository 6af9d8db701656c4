"""The vectors of a store's records: which there are, and which are still to be made.

A set of them is of one embedder. Triggers (migration 0007) see to it that a vector goes when its
record does, or changes.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

import apsw
import orjson

from memrelay.memory.sqlite.rows import Changes

MOST_CHARACTERS = 1 << 15  # of a text; no embedder looks further
TEXT = f"thread IS NOT NULL, source, substr(content, 1, {MOST_CHARACTERS})"
REVISED = (
    f"SELECT r.row, {TEXT} FROM vectors_todo AS t JOIN records AS r ON r.row = t.row WHERE t.place = ? "
    "ORDER BY t.row LIMIT ?"
)
NEW = f"SELECT row, {TEXT} FROM records WHERE row > ? ORDER BY row LIMIT ?"
BACKLOG = (
    "SELECT (SELECT count(*) FROM vectors_todo WHERE place = :place) "
    "+ max(0, (SELECT coalesce(max(row), 0) FROM records) - :looked_at)"
)
MISSED = (
    "INSERT OR IGNORE INTO vectors_todo SELECT s.place, r.row FROM vector_sets AS s JOIN records AS r "
    "ON r.row > s.looked_at AND r.row <= :last "
    "WHERE s.place = :place AND r.row NOT IN (SELECT value FROM json_each(:rows))"
)


class VectorSet(NamedTuple):
    """Vectors that can be compared with each other."""

    place: int  # 0 or 1
    fingerprint: str  # of their embedder
    dimension: int
    serves: bool  # searched; else it is being made, and will be when it is whole
    looked_at: int  # every record up to this row has a vector, or is to get one anew


class Made(NamedTuple):
    """A vector that is to be kept."""

    row: int
    text: str  # that it was made of
    vector: bytes  # "<f2"; b"" where the embedder does not take the text


class VectorTable:
    """Reads and writes vectors inside the store's open transaction; reads between two as well."""

    def __init__(self, connection: apsw.Connection) -> None:
        """Keeps nothing in memory."""
        self._connection = connection
        self.changes: Changes | None = (
            None  # told of the rows that get a vector, where somebody wants to know
        )

    def sets(self) -> list[VectorSet]:
        """The one that serves first."""
        found = self._connection.execute(
            "SELECT place, fingerprint, dimension, serves, looked_at FROM vector_sets ORDER BY serves DESC"
        )
        return [
            VectorSet(place, name, dimension, bool(serves), row)
            for place, name, dimension, serves, row in found
        ]

    def serving(self) -> VectorSet | None:
        """The set that is searched."""
        return next((one for one in self.sets() if one.serves), None)

    def begin(self, fingerprint: str, dimension: int) -> None:
        """A set without vectors: the one that serves, where there is none; else one that is made
        beside it, from the start."""
        serving = self.serving()
        place = 1 - serving.place if serving else 0
        self._connection.execute("DELETE FROM vectors_todo WHERE place = ?", (place,))
        self._connection.execute(f"DELETE FROM {_table(place)}")
        self._connection.execute(
            "INSERT OR REPLACE INTO vector_sets VALUES (?, ?, ?, ?, 0)",
            (place, fingerprint, dimension, serving is None),
        )

    def serve(self, one: VectorSet) -> None:
        """This set is searched from now on. The other one's vectors are left to `clear_some`."""
        self._connection.execute("DELETE FROM vector_sets WHERE place != ?", (one.place,))
        self._connection.execute("DELETE FROM vectors_todo WHERE place != ?", (one.place,))
        self._connection.execute("UPDATE vector_sets SET serves = 1")

    def clear_some(self, most: int) -> bool:
        """Deletes vectors that are in no set any more, so many at once. Whether there were any."""
        kept = {one.place for one in self.sets()}
        for place in {0, 1} - kept:
            table = _table(place)
            self._connection.execute(
                f"DELETE FROM {table} WHERE row IN (SELECT row FROM {table} LIMIT ?)", (most,)
            )
            if self._connection.changes():
                return True
        return False

    def to_clear(self) -> bool:
        """Whether there is something for `clear_some`."""
        kept = {one.place for one in self.sets()}
        return any(
            self._connection.execute(f"SELECT EXISTS (SELECT 1 FROM {_table(place)})").get
            for place in {0, 1} - kept
        )

    def outstanding(self, one: VectorSet, most: int) -> list[tuple[int, str]]:
        """(row, text) of some records that have no vector yet: what was edited, then what is new,
        the oldest first."""
        found = [
            (row, embedded_text(*parts))
            for row, *parts in self._connection.execute(REVISED, (one.place, most))
        ]
        new = (
            self._connection.execute(NEW, (one.looked_at, most - len(found)))
            if len(found) < most
            else ()
        )
        return found + [(row, embedded_text(*parts)) for row, *parts in new]

    def put(self, one: VectorSet, made: Sequence[Made]) -> None:
        """Keeps vectors of what `outstanding` told, but for records that have changed or gone
        since."""
        run, place, table = self._connection.execute, one.place, _table(one.place)
        for row, text, vector in made:
            found = run(f"SELECT {TEXT} FROM records WHERE row = ?", (row,)).fetchone()
            if found is None or embedded_text(*found) == text:
                run("DELETE FROM vectors_todo WHERE place = ? AND row = ?", (place, row))
            else:  # another text by now
                run("INSERT OR IGNORE INTO vectors_todo VALUES (?, ?)", (place, row))
                continue
            if found is not None:
                run(
                    f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)",
                    (row, crc32(text.encode()), vector),
                )
            if self.changes is not None:
                self.changes.add(row)
        rows = [row for row, _, _ in made]
        last = max(rows)
        run(
            MISSED, {"last": last, "place": place, "rows": orjson.dumps(rows).decode()}
        )  # rows that were given anew meanwhile
        run(
            "UPDATE vector_sets SET looked_at = max(looked_at, min(?, (SELECT coalesce(max(row), 0) FROM records))) "
            "WHERE place = ?",
            (last, place),
        )

    def put_new(self, one: VectorSet, made: Made) -> None:
        """Keeps the vector of a record that was made just now. It is made again where those before
        it have none yet."""
        run = self._connection.execute
        run(
            f"INSERT OR REPLACE INTO {_table(one.place)} VALUES (?, ?, ?)",
            (made.row, crc32(made.text.encode()), made.vector),
        )
        run(
            "UPDATE vector_sets SET looked_at = ?1 WHERE place = ?2 AND looked_at = ?1 - 1",
            (made.row, one.place),
        )
        if self.changes is not None:
            self.changes.add(made.row)

    def backlog(self, one: VectorSet) -> int:
        """How many records have no vector yet; about, for those that were deleted before they got
        one count too."""
        return int(
            self._connection.execute(BACKLOG, {"place": one.place, "looked_at": one.looked_at}).get
        )

    def records(self) -> int:
        """How many records there are, about."""
        return int(self._connection.execute("SELECT coalesce(max(row), 0) FROM records").get)

    def read(self, one: VectorSet, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """(row, vector) of the rows after that one, ascending."""
        return self._connection.execute(
            f"SELECT row, vector FROM {_table(one.place)} WHERE row > ? ORDER BY row", (after,)
        )

    def read_rows(self, one: VectorSet, rows: Iterable[int]) -> list[tuple[int, bytes]]:
        """(row, vector) of those rows that have one."""
        sql = f"SELECT row, vector FROM {_table(one.place)} WHERE row = ?"
        return [
            found
            for row in rows
            if (found := self._connection.execute(sql, (row,)).fetchone()) is not None
        ]


def embedded_text(is_turn: bool, source: str, content: str) -> str:
    """What a vector is made of: of a turn, with who said it, which finds it better
    (docs/search-quality.md)."""
    return f"{source} said: {content}" if is_turn else content


def _table(place: int) -> str:
    return f"vectors_{place:d}"
