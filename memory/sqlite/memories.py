"""The table of named memories: what they are called. What they hold are records
(memory/sqlite/entries.py)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw
import orjson

from memory.globs import any_matches
from memory.sqlite.filters import where

COLUMNS = "id, name, description, tags, created_at, updated_at"
GLOBS = "tags_match(tags, ?)"
BEYOND = {"asc": "row > ?", "desc": "row < ?"}
ORDER = {"asc": "row", "desc": "row DESC"}


class Memory(NamedTuple):
    """A named memory as it is stored: `tags` is a JSON array, times are Unix ms."""

    id: str
    name: str
    description: str | None
    tags: str | None
    created_at: int
    updated_at: int


class MemoryTable:
    """Reads and writes named memories inside the store's open transaction; keeps nothing in
    memory."""

    def __init__(self, connection: apsw.Connection) -> None:
        """Gives SQL the function `tags_match(tags, globs)`, over JSON arrays."""
        self._connection = connection
        connection.create_scalar_function("tags_match", _tags_match, 2, deterministic=True)

    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._connection.execute("SELECT EXISTS (SELECT 1 FROM memories)").get)

    def find(self, ident: str) -> Memory | None:
        """The memory of that id."""
        return self._first("id = ?", ident)

    def named(self, name: str) -> Memory | None:
        """The oldest of that name."""
        return self._first("name = ?", name)

    def add(self, memory: Memory) -> None:
        """A new one."""
        self._connection.execute(
            f"INSERT INTO memories({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", memory
        )

    def replace(self, memory: Memory) -> None:
        """Other names for the one of that id."""
        self._connection.execute(
            "UPDATE memories SET name = ?, description = ?, tags = ?, updated_at = ? WHERE id = ?",
            (memory.name, memory.description, memory.tags, memory.updated_at, memory.id),
        )

    def remove(self, ident: str) -> None:
        """It is called nothing any more; its entries are records, and are deleted as such."""
        self._connection.execute("DELETE FROM memories WHERE id = ?", (ident,))

    def page(
        self, globs: Sequence[str], order: str, beyond: int | None, limit: int
    ) -> Iterator[tuple[int, Memory]]:
        """(row, memory) of those with a tag that fits one of the globs, or of all, after the row
        `beyond`."""
        clauses, values = _tagged(globs)
        if beyond is not None:
            clauses, values = [*clauses, BEYOND[order]], [*values, beyond]
        found = self._connection.execute(
            f"SELECT row, {COLUMNS} FROM memories{where(*clauses)} ORDER BY {ORDER[order]} LIMIT {limit:d}",
            values,
        )
        return ((row[0], Memory._make(row[1:])) for row in found)

    def every(self, globs: Sequence[str] = ()) -> list[Memory]:
        """All, or those with a tag that fits, the oldest first."""
        clauses, values = _tagged(globs)
        found = self._connection.execute(
            f"SELECT {COLUMNS} FROM memories{where(*clauses)} ORDER BY row", values
        )
        return [Memory._make(row) for row in found]

    def count(self, globs: Sequence[str]) -> int:
        """How many there are of those."""
        clauses, values = _tagged(globs)
        return int(
            self._connection.execute(f"SELECT count(*) FROM memories{where(*clauses)}", values).get
        )

    def _first(self, clause: str, value: str) -> Memory | None:
        found = self._connection.execute(
            f"SELECT {COLUMNS} FROM memories WHERE {clause} ORDER BY row LIMIT 1", (value,)
        )
        return next(map(Memory._make, found), None)


def _tagged(globs: Sequence[str]) -> tuple[list[str], list[Any]]:
    return ([GLOBS], [orjson.dumps(globs).decode()]) if globs else ([], [])


def _tags_match(*given: Any) -> bool:
    tags, globs = given
    return any_matches(orjson.loads(globs), orjson.loads(tags or "[]"))
