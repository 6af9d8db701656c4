"""The vectors of a store's records, and the records that still need one.

A vector set belongs to one embedder. Triggers (migration 0007) delete a vector when its record
changes or is deleted.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

import apsw
import orjson

from memrelay.memory.engine.rows import Changes

# Maximum length of an embedded text. Embedders read no more.
MAX_CHARACTERS = 1 << 15
DOCUMENT_KIND = "recipe.document"
# Of recipes and what they read, only documents are searched by meaning. They have no speaker.
TEXT = (
    f"thread IS NOT NULL AND kind != '{DOCUMENT_KIND}', source, "
    f"CASE WHEN kind >= 'recipe.' AND kind < 'recipe/' AND kind != '{DOCUMENT_KIND}' THEN '' "
    f"ELSE substr(content, 1, {MAX_CHARACTERS}) END"
)
SELECT_CHANGED = (
    f"SELECT r.row, {TEXT} FROM vectors_todo AS t JOIN records AS r ON r.row = t.row "
    "WHERE t.place = ? ORDER BY t.row LIMIT ?"
)
SELECT_NEW = f"SELECT row, {TEXT} FROM records WHERE row > ? ORDER BY row LIMIT ?"
BACKLOG = (
    "SELECT (SELECT count(*) FROM vectors_todo WHERE place = :place) "
    "+ max(0, (SELECT coalesce(max(row), 0) FROM records) - :looked_at)"
)
MARK_MISSED = (
    "INSERT OR IGNORE INTO vectors_todo SELECT s.place, r.row FROM vector_sets AS s "
    "JOIN records AS r ON r.row > s.looked_at AND r.row <= :last "
    "WHERE s.place = :place AND r.row NOT IN (SELECT value FROM json_each(:rows))"
)


class VectorSet(NamedTuple):
    """Vectors of one embedder, which can be compared with each other."""

    # 0 or 1
    place: int
    # Fingerprint of the embedder.
    fingerprint: str
    dimension: int
    # Whether searches use it. If not, it is being built and will be used once complete.
    serves: bool
    # Every record up to this row has a vector or is marked to get one.
    looked_at: int


class Made(NamedTuple):
    """A vector to store."""

    row: int
    # The embedded text.
    text: str
    # Little-endian float16, b"" if the embedder rejects the text.
    vector: bytes


class VectorTable:
    """Reads and writes vectors inside the store's open transaction, without a cache.

    Reads also work between transactions.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        # Collects the rows that get a vector, if a reader needs them.
        self.changes: Changes | None = None

    def sets(self) -> list[VectorSet]:
        """Return the vector sets, the active one first."""
        found = self._connection.execute(
            f"SELECT {', '.join(VectorSet._fields)} FROM vector_sets ORDER BY serves DESC"
        )
        return [
            VectorSet(place, name, dimension, bool(serves), row)
            for place, name, dimension, serves, row in found
        ]

    def serving(self) -> VectorSet | None:
        """Return the vector set that searches use, None if there is none."""
        return next((one for one in self.sets() if one.serves), None)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the vectors that searches use, "" without any."""
        serving = self.serving()
        return serving.fingerprint if serving is not None else ""

    def begin(self, fingerprint: str, dimension: int) -> None:
        """Start an empty set: the active one if there is none, else one built next to it."""
        serving = self.serving()
        place = 1 - serving.place if serving else 0
        self._connection.execute("DELETE FROM vectors_todo WHERE place = ?", (place,))
        self._connection.execute(f"DELETE FROM {_table_name(place)}")
        self._connection.execute(
            "INSERT OR REPLACE INTO vector_sets VALUES (?, ?, ?, ?, 0)",
            (place, fingerprint, dimension, serving is None),
        )

    def serve(self, one: VectorSet) -> None:
        """Make a set the active one. `clear_some` deletes the other one's vectors."""
        self._connection.execute("DELETE FROM vector_sets WHERE place != ?", (one.place,))
        self._connection.execute("DELETE FROM vectors_todo WHERE place != ?", (one.place,))
        self._connection.execute("UPDATE vector_sets SET serves = 1")

    def clear_some(self, most: int) -> bool:
        """Delete up to `most` vectors that belong to no set. Return whether there were any."""
        kept = {one.place for one in self.sets()}
        for place in {0, 1} - kept:
            table = _table_name(place)
            self._connection.execute(
                f"DELETE FROM {table} WHERE row IN (SELECT row FROM {table} LIMIT ?)", (most,)
            )
            if self._connection.changes():
                return True
        return False

    def to_clear(self) -> bool:
        """Return whether `clear_some` has vectors to delete."""
        kept = {one.place for one in self.sets()}
        return any(
            self._connection.execute(f"SELECT EXISTS (SELECT 1 FROM {_table_name(place)})").get
            for place in {0, 1} - kept
        )

    def outstanding(self, one: VectorSet, most: int) -> list[tuple[int, str]]:
        """Return (row, text) of some records without a vector: edited ones, then new ones, the
        oldest first.
        """
        found = [
            (row, embedded_text(*parts))
            for row, *parts in self._connection.execute(SELECT_CHANGED, (one.place, most))
        ]
        new = (
            self._connection.execute(SELECT_NEW, (one.looked_at, most - len(found)))
            if len(found) < most
            else ()
        )
        return found + [(row, embedded_text(*parts)) for row, *parts in new]

    def put(self, one: VectorSet, made: Sequence[Made]) -> None:
        """Store vectors of texts from `outstanding`, except for records that changed or were
        deleted since.
        """
        run, place, table = self._connection.execute, one.place, _table_name(one.place)
        for row, text, vector in made:
            found = run(f"SELECT {TEXT} FROM records WHERE row = ?", (row,)).fetchone()
            if found is None or embedded_text(*found) == text:
                run("DELETE FROM vectors_todo WHERE place = ? AND row = ?", (place, row))
            # The text changed since.
            else:
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
        # Row numbers may have been reused in the meantime.
        run(MARK_MISSED, {"last": last, "place": place, "rows": orjson.dumps(rows).decode()})
        run(
            "UPDATE vector_sets SET looked_at = "
            "max(looked_at, min(?, (SELECT coalesce(max(row), 0) FROM records))) WHERE place = ?",
            (last, place),
        )

    def put_new(self, one: VectorSet, made: Made) -> None:
        """Store the vector of the record that was just created or changed.

        It is created again later if earlier records have no vector yet.
        """
        run = self._connection.execute
        run("DELETE FROM vectors_todo WHERE place = ? AND row = ?", (one.place, made.row))
        run(
            f"INSERT OR REPLACE INTO {_table_name(one.place)} VALUES (?, ?, ?)",
            (made.row, crc32(made.text.encode()), made.vector),
        )
        run(
            "UPDATE vector_sets SET looked_at = ?1 WHERE place = ?2 AND looked_at = ?1 - 1",
            (made.row, one.place),
        )
        if self.changes is not None:
            self.changes.add(made.row)

    def backlog(self, one: VectorSet) -> int:
        """Return about how many records have no vector yet.

        Records deleted before they got a vector count too.
        """
        return int(
            self._connection.execute(BACKLOG, {"place": one.place, "looked_at": one.looked_at}).get
        )

    def has_missing(self, one: VectorSet, rows: Sequence[int]) -> bool:
        """Return whether one of these rows has no vector yet.

        A text that the embedder rejected counts as embedded.
        """
        sql = (
            "SELECT EXISTS (SELECT 1 FROM json_each(?) WHERE NOT EXISTS "
            f"(SELECT 1 FROM {_table_name(one.place)} WHERE row = value))"
        )
        return bool(self._connection.execute(sql, (orjson.dumps(rows).decode(),)).get)

    def has_more_than(self, one: VectorSet, count: int) -> bool:
        """Return whether there are more vectors than this, without reading them all."""
        sql = f"SELECT EXISTS (SELECT 1 FROM {_table_name(one.place)} LIMIT 1 OFFSET ?)"
        return bool(self._connection.execute(sql, (count,)).get)

    def records(self) -> int:
        """Return about how many records there are."""
        return int(self._connection.execute("SELECT coalesce(max(row), 0) FROM records").get)

    def read(self, one: VectorSet, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield (row, vector) of the rows after `after`, ascending."""
        return self._connection.execute(
            f"SELECT row, vector FROM {_table_name(one.place)} WHERE row > ? ORDER BY row", (after,)
        )

    def read_rows(self, one: VectorSet, rows: Iterable[int]) -> list[tuple[int, bytes]]:
        """Return (row, vector) of the given rows that have a vector."""
        sql = f"SELECT row, vector FROM {_table_name(one.place)} WHERE row = ?"
        return [
            found
            for row in rows
            if (found := self._connection.execute(sql, (row,)).fetchone()) is not None
        ]


def embedded_text(is_turn: bool, source: str, content: str) -> str:
    """Return the text that is embedded.

    A turn includes its speaker, which improves search (docs/recall.md).
    """
    return f"{source} said: {content}" if is_turn else content


def _table_name(place: int) -> str:
    return f"vectors_{place:d}"
