"""The table of named memories: what they are called. What they hold are records
(memory/sqlite/memories.py)."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import apsw
import orjson

from memrelay.memory.records.entry_text import digests_of
from memrelay.memory.sqlite.filters import where

# Tag globs (seed 004, "Tag Filtering"): `*` is any text, `?` one character, and everything else
# itself, case and all.


def matches(pattern: str, text: str) -> bool:
    """Whether the whole text fits. Takes the product of the lengths at most, whatever the pattern
    is."""
    at = place = 0
    star, resumed = -1, 0  # the last `*`, and how far of the text it has taken
    while place < len(text):
        if at < len(pattern) and pattern[at] == "*":
            star, resumed = at, place
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", text[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            resumed += 1
            at, place = star + 1, resumed
        else:
            return False
    return all(sign == "*" for sign in pattern[at:])


def any_matches(patterns: Sequence[str], texts: Iterable[str]) -> bool:
    """Whether one of the texts fits one of the patterns."""
    return any(matches(pattern, text) for text in texts for pattern in patterns)


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


# What the entries of named memories have beside their records: who finds the same text again, and
# how often it was confirmed.
#
# Rows change and go with the records, by triggers (migration 0009), whoever writes them; those of new
# ones are made here.

SEE = (
    "INSERT OR IGNORE INTO entries(guid, memory) SELECT guid, scope FROM records "
    "WHERE kind = 'entry' AND row > (SELECT row FROM entries_seen)"
)
SEEN = (
    "UPDATE entries_seen SET row = coalesce((SELECT max(row) FROM records WHERE kind = 'entry'), 0)"
)
UNDIGESTED = (
    "SELECT e.guid, r.content FROM entries AS e JOIN records AS r ON r.guid = e.guid "
    "WHERE e.memory = ? AND e.digested = 0 LIMIT ?"
)
SAME = (
    "SELECT r.guid FROM entry_lines AS l JOIN records AS r ON r.guid = l.guid "
    "WHERE l.memory = ? AND l.digest = ? ORDER BY r.row"
)
TOGETHER = 1000
WORDS = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.entry_words USING fts5vocab('main', 'records_fts', 'row');"
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.entry_parts USING fts5vocab('main', 'parts_fts', 'row')"
)
COUNT = "SELECT term, doc FROM json_each(?) CROSS JOIN temp.entry_words ON term = json_each.value"
COUNT_ALL = (
    # `parts_fts` has words of the other, too
    f"SELECT term, max(doc) FROM ({COUNT.replace('?', '?1')} UNION ALL "
    f"{COUNT.replace('?', '?1').replace('entry_words', 'entry_parts')}) GROUP BY term"
)
MOST_RECORDS = 1000  # that hold a word which is not common
MOST_WORDS = 8  # of these words
MOST_COMMON = 10_000  # words that are known to be common


class Confirmed(NamedTuple):
    """How often an entry was written again, and when last (Unix ms)."""

    times: int
    last: int | None


class EntryTable:
    """Reads and writes inside the store's open transaction, after the records that wait were put
    into their table."""

    def __init__(self, connection: apsw.Connection) -> None:
        """Keeps in memory which words are common."""
        self._connection = connection
        self._common: set[str] = set()

    def same(self, memory: str, digest: bytes) -> list[str]:
        """The guids of the entries with that text, or with a line that is that text, the oldest
        first; expired ones too."""
        self.digest(memory)
        return [str(guid) for (guid,) in self._connection.execute(SAME, (memory, digest))]

    def confirm(self, guid: str, now_ms: int) -> None:
        """The same was written again."""
        self._connection.execute(
            "UPDATE entries SET confirmations = confirmations + 1, confirmed_at = ? WHERE guid = ?",
            (now_ms, guid),
        )

    def confirmed(self, guid: str) -> Confirmed:
        """How often that was."""
        found = self._connection.execute(
            "SELECT confirmations, confirmed_at FROM entries WHERE guid = ?", (guid,)
        ).fetchone()
        return Confirmed(*found) if found else Confirmed(0, None)

    def rare(self, words: Iterable[str], most: int) -> list[str]:
        """Those of the words that few records hold, the rarest first, `most` records together;
        words as indexed."""
        self._connection.execute(WORDS)  # temporary, and a rollback takes it with it
        wanted = [word for word in dict.fromkeys(words) if word not in self._common]
        count_words = COUNT if all(map(str.isascii, wanted)) else COUNT_ALL
        counted: list[tuple[int, str]] = []
        for word, count in self._connection.execute(count_words, (orjson.dumps(wanted).decode(),)):
            if count <= MOST_RECORDS:
                counted.append((count, word))
            elif len(self._common) < MOST_COMMON:
                self._common.add(word)  # to count it takes 30 ns a record
        counted.sort()
        within = accumulate(count for count, _ in counted)
        return [word for (_, word), total in zip(counted, within, strict=True) if total <= most][
            :MOST_WORDS
        ]

    def digest(self, memory: str) -> None:
        """Makes the digests of whatever was written, edited or restored meanwhile, by whichever
        way."""
        self._connection.execute(SEE)
        if self._connection.changes():
            self._connection.execute(SEEN)
        while some := self._connection.execute(UNDIGESTED, (memory, TOGETHER)).fetchall():
            for guid, content in some:
                self._connection.executemany(
                    "INSERT OR IGNORE INTO entry_lines VALUES (?, ?, ?)",
                    [(memory, digest, guid) for digest in digests_of(str(content))],
                )
                self._connection.execute("UPDATE entries SET digested = 1 WHERE guid = ?", (guid,))
