"""The tables of named memories and of their entries. The entries' texts are records."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import apsw
import orjson

from memrelay.memory.engine.filter_sql import where
from memrelay.memory.engine.records import RecordTable
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.models.named_memories.entry_text import make_digests

BEYOND = {"asc": "row > ?", "desc": "row < ?"}
ORDER = {"asc": "row", "desc": "row DESC"}
TAGS_MATCH = "tags_match(tags, ?)"


class Memory(NamedTuple):
    """A row of a named memory. `tags` is a JSON array. Times are Unix ms."""

    id: str
    name: str
    description: str | None
    tags: str | None
    created_at: int
    updated_at: int


def admit_memory(
    records: RecordTable, name: str, description: str | None, tags: str | None
) -> tuple[str | None, str | None]:
    """Return the description and the tags (JSON) of a named memory as the policies of the store let
    them in. It is found by its name, which cannot change. Raises PolicyStop.
    """
    texts = [description or "", *orjson.loads(tags or "[]")]
    admitted = [*records.admit_texts("memory", texts, (name,))]
    if admitted == texts:
        return description, tags
    return admitted[0] or None, orjson.dumps(admitted[1:]).decode() if tags else None


COLUMNS = ", ".join(Memory._fields)
STATE = f"row, {COLUMNS}, born"
KEEP_VERSION = (
    f"INSERT INTO memory_versions({STATE}, ended, ended_at) "
    f"SELECT {STATE}, ?, ? FROM memories WHERE id = ?"
)


class MemoryTable(StoreTable):
    """Reads and writes named memories inside the store's open transaction, without a cache.

    It registers the SQL function `tags_match(tags, globs)` over JSON arrays.
    """

    READS = ("any", "count", "every", "find", "named", "page")

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._connection.create_scalar_function("tags_match", _tags_match, 2, deterministic=True)

    def any(self) -> bool:
        """Return whether there is a named memory."""
        return bool(self._connection.execute("SELECT EXISTS (SELECT 1 FROM memories)").get)

    def find(self, ident: str) -> Memory | None:
        """Return the memory with that id, None if it does not exist."""
        return self._first("id = ?", ident)

    def named(self, name: str) -> Memory | None:
        """Return the oldest memory with that name, None if there is none."""
        return self._first("name = ?", name)

    def add(self, memory: Memory) -> None:
        """Insert a memory. Raises PolicyStop."""
        memory = self._admit(memory)
        self._connection.execute(
            f"INSERT INTO memories({COLUMNS}, born) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*memory, self._records.count_change()),
        )
        self._records.announce("memory.created", memory.id)

    def replace(self, memory: Memory) -> None:
        """Update the name, description and tags of the memory with that id. Raises PolicyStop."""
        memory = self._admit(memory)
        change = self._keep_version(memory.id)
        self._connection.execute(
            "UPDATE memories SET name = ?, description = ?, tags = ?, updated_at = ?, born = ? "
            "WHERE id = ?",
            (memory.name, memory.description, memory.tags, memory.updated_at, change, memory.id),
        )
        self._records.announce("memory.updated", memory.id)

    def remove(self, ident: str) -> None:
        """Delete the memory's row. Its entries are records and are deleted as such."""
        if self.find(ident) is None:
            return
        self._keep_version(ident)
        self._connection.execute("DELETE FROM memories WHERE id = ?", (ident,))
        self._records.announce("memory.deleted", ident)

    def _admit(self, memory: Memory) -> Memory:
        """Return a memory as the policies of the store let it in. It is found by its name."""
        if not self._records.path.admit_texts:
            return memory
        values = admit_memory(self._records, memory.name, memory.description, memory.tags)
        return memory._replace(description=values[0], tags=values[1])

    def _keep_version(self, ident: str) -> int:
        """Keep the present state of a memory. Return the number of the change that ends it."""
        change = self._records.count_change()
        self._connection.execute(KEEP_VERSION, (change, self._records.versions.now_ms, ident))
        return change

    def page(
        self, globs: Sequence[str], order: str, beyond: int | None, limit: int
    ) -> Iterator[tuple[int, Memory]]:
        """Return (row, memory) after the row `beyond`. Without globs, all memories match."""
        clauses, values = _glob_condition(globs)
        if beyond is not None:
            clauses, values = [*clauses, BEYOND[order]], [*values, beyond]
        rows = self._connection.execute(
            f"SELECT row, {COLUMNS} FROM memories{where(*clauses)} "
            f"ORDER BY {ORDER[order]} LIMIT {limit:d}",
            values,
        )
        return ((row[0], Memory._make(row[1:])) for row in rows)

    def every(self, globs: Sequence[str] = ()) -> list[Memory]:
        """Return all memories with a matching tag, the oldest first. Without globs, all match."""
        clauses, values = _glob_condition(globs)
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM memories{where(*clauses)} ORDER BY row", values
        )
        return [Memory._make(row) for row in rows]

    def count(self, globs: Sequence[str]) -> int:
        """Return the number of memories with a matching tag. Without globs, all match."""
        clauses, values = _glob_condition(globs)
        return int(
            self._connection.execute(f"SELECT count(*) FROM memories{where(*clauses)}", values).get
        )

    def _first(self, clause: str, value: str) -> Memory | None:
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM memories WHERE {clause} ORDER BY row LIMIT 1", (value,)
        )
        return next(map(Memory._make, rows), None)


def take_back_memories(connection: apsw.Connection, change: int) -> None:
    """Take the memories in a copy of a store back to their state after a change."""
    connection.execute("DELETE FROM memories WHERE born > ?", (change,))
    connection.execute(
        f"INSERT INTO memories({STATE}) SELECT {STATE} FROM memory_versions "
        "WHERE born <= ?1 AND ended > ?1",
        (change,),
    )
    connection.execute("DELETE FROM memory_versions WHERE ended > ?", (change,))


def _tags_match(*values: Any) -> bool:
    tags, globs = values
    texts, patterns = orjson.loads(tags or "[]"), orjson.loads(globs)
    return any(glob_matches(pattern, text) for text in texts for pattern in patterns)


def _glob_condition(globs: Sequence[str]) -> tuple[list[str], list[Any]]:
    return ([TAGS_MATCH], [orjson.dumps(globs).decode()]) if globs else ([], [])


# Tag globs (seed 004, "Tag Filtering"): `*` is any text, `?` is one character, everything else is
# literal, with case.


def glob_matches(pattern: str, text: str) -> bool:
    """Return whether the pattern matches the whole text.

    The time is at most proportional to the product of the lengths.
    """
    in_pattern = in_text = 0
    # The position of the last `*` in the pattern, and the end of the text that it covers.
    star, covered = -1, 0
    while in_text < len(text):
        if in_pattern < len(pattern) and pattern[in_pattern] == "*":
            star, covered = in_pattern, in_text
            in_pattern += 1
        elif in_pattern < len(pattern) and pattern[in_pattern] in ("?", text[in_text]):
            in_pattern, in_text = in_pattern + 1, in_text + 1
        elif star >= 0:
            covered += 1
            in_pattern, in_text = star + 1, covered
        else:
            return False
    return all(char == "*" for char in pattern[in_pattern:])


# Data of entries in addition to their records: digests of their texts and their confirmations.
# Triggers (migration 0009) change and delete the rows with the records. The rows of new records are
# created here.

INSERT_NEW = (
    "INSERT OR IGNORE INTO entries(guid, memory) SELECT guid, scope FROM records "
    "WHERE kind = 'entry' AND row > (SELECT row FROM entries_seen)"
)
UPDATE_SEEN = (
    "UPDATE entries_seen SET row = coalesce((SELECT max(row) FROM records WHERE kind = 'entry'), 0)"
)
UNDIGESTED = (
    "SELECT e.guid, r.content FROM entries AS e JOIN records AS r ON r.guid = e.guid "
    "WHERE e.memory = ? AND e.digested = 0 LIMIT ?"
)
SAME_TEXT = (
    "SELECT r.guid FROM entry_lines AS l JOIN records AS r ON r.guid = l.guid "
    "WHERE l.memory = ? AND l.digest = ? ORDER BY r.row"
)
CONFIRMED = (
    "SELECT guid FROM entries WHERE memory IN (SELECT value FROM json_each(?)) "
    "AND confirmations > 0 ORDER BY {} DESC LIMIT ?"
)
BATCH = 1000
WORD_TABLES = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.entry_words "
    "USING fts5vocab('main', 'records_fts', 'row');"
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.entry_parts "
    "USING fts5vocab('main', 'parts_fts', 'row')"
)
COUNT_WORDS = (
    "SELECT term, doc FROM json_each(?) CROSS JOIN temp.entry_words ON term = json_each.value"
)
COUNT_WORDS_AND_PARTS = (
    # `parts_fts` also has words of the content.
    f"SELECT term, max(doc) FROM ({COUNT_WORDS.replace('?', '?1')} UNION ALL "
    f"{COUNT_WORDS.replace('?', '?1').replace('entry_words', 'entry_parts')}) GROUP BY term"
)
# A word in more records is common.
MOST_RECORDS = 1000
# Maximum number of words.
MAX_WORDS = 8
# Maximum number of common words kept in memory.
MAX_COMMON = 10_000


class Confirmed(NamedTuple):
    """How often an entry was written again, and the last time, Unix ms."""

    times: int
    last: int | None


class EntryTable(StoreTable):
    """Reads and writes data of entries inside the store's open transaction.

    Buffered records must be in their table. It keeps the set of common words in memory.
    """

    READS = ("confirmed", "latest", "rare")

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._common: set[str] = set()

    def same(self, memory: str, digest: bytes) -> list[str]:
        """Return the guids of entries with that text or line, the oldest first, including expired
        ones.
        """
        self.digest(memory)
        return [str(guid) for (guid,) in self._connection.execute(SAME_TEXT, (memory, digest))]

    def confirm(self, guid: str, now_ms: int) -> None:
        """Count a confirmation: the same text was written again."""
        self._connection.execute(
            "UPDATE entries SET confirmations = confirmations + 1, confirmed_at = ? WHERE guid = ?",
            (now_ms, guid),
        )

    def add_confirmations(self, guid: str, to: str) -> None:
        """Add the confirmations of an entry, which is a confirmation itself, to another one."""
        times, last = self.confirmed(guid)
        self._connection.execute(
            "UPDATE entries SET confirmations = confirmations + ?, "
            "confirmed_at = nullif(max(ifnull(confirmed_at, 0), ?), 0) WHERE guid = ?",
            (times + 1, last or 0, to),
        )

    def confirmed(self, guid: str) -> Confirmed:
        """Return the confirmations of an entry."""
        row = self._connection.execute(
            "SELECT confirmations, confirmed_at FROM entries WHERE guid = ?", (guid,)
        ).fetchone()
        return Confirmed(*row) if row else Confirmed(0, None)

    def latest(self, memories: Iterable[str], limit: int) -> list[str]:
        """Return the guids of the entries that were confirmed last, then of the most confirmed."""
        given = orjson.dumps(list(memories)).decode()
        return [
            str(guid)
            for order in ("confirmed_at", "confirmations")
            for (guid,) in self._connection.execute(CONFIRMED.format(order), (given, limit))
        ]

    def rare(self, words: Iterable[str], most: int) -> list[str]:
        """Return the indexed words that few records have, the rarest first, for at most `most`
        records in total.
        """
        # Temporary: a rollback removes it.
        self._connection.execute(WORD_TABLES)
        uncounted = [word for word in dict.fromkeys(words) if word not in self._common]
        count_words = COUNT_WORDS if all(map(str.isascii, uncounted)) else COUNT_WORDS_AND_PARTS
        counted: list[tuple[int, str]] = []
        for word, count in self._connection.execute(
            count_words, (orjson.dumps(uncounted).decode(),)
        ):
            if count <= MOST_RECORDS:
                counted.append((count, word))
            elif len(self._common) < MAX_COMMON:
                # Counting takes 30 ns per record.
                self._common.add(word)
        counted.sort()
        totals = accumulate(count for count, _ in counted)
        rare = [word for (_, word), total in zip(counted, totals, strict=True) if total <= most]
        return rare[:MAX_WORDS]

    def digest(self, memory: str) -> None:
        """Compute missing digests of entries that were written, edited or restored in any way."""
        self._connection.execute(INSERT_NEW)
        if self._connection.changes():
            self._connection.execute(UPDATE_SEEN)
        while undigested := self._connection.execute(UNDIGESTED, (memory, BATCH)).fetchall():
            for guid, content in undigested:
                self._connection.executemany(
                    "INSERT OR IGNORE INTO entry_lines VALUES (?, ?, ?)",
                    [(memory, digest, guid) for digest in make_digests(str(content))],
                )
                self._connection.execute("UPDATE entries SET digested = 1 WHERE guid = ?", (guid,))


def has_memories(store: Store) -> bool:
    """Return whether a store has named memories, whose entries are searched by meaning."""
    return store.table(MemoryTable).any()
