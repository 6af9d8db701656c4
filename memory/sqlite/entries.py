"""What the entries of named memories have beside their records: who finds the same text again, and
how often it was confirmed.

Rows change and go with the records, by triggers (migration 0009), whoever writes them; those of new
ones are made here.
"""

from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

import apsw
import orjson

from memory.entry_text import digests_of

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
