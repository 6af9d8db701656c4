"""Erasing in a store's file: records with all that is kept of them, and then every page that may
still hold some of it.

What was erased is noted in the transaction that deletes it, so that whoever opens the store after a
crash goes on.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import apsw
import orjson

from memrelay.memory.errors import StoreBusy
from memrelay.memory.sqlite.filters import Conditions, where
from memrelay.memory.sqlite.fulltext import INDEXES
from memrelay.memory.sqlite.inbox import Inbox
from memrelay.memory.sqlite.records import RecordTable
from memrelay.memory.sqlite.versions import StoredRecord, stored_records

TABLE = "SELECT n, asked_at, actor, reason, records, versions, replies, messages, letters, left_over, ended_at FROM erasures"
ADD = "INSERT INTO erasures(asked_at, actor, reason, records, versions) VALUES (?, ?, ?, ?, ?)"
COUNT = (
    "UPDATE erasures SET replies = replies + ?, messages = messages + ?, letters = letters + ? "
    "WHERE n = (SELECT max(n) FROM erasures)"
)
END = "UPDATE erasures SET ended_at = ?, left_over = ? WHERE ended_at IS NULL AND n <= ?"
OPEN = "SELECT EXISTS (SELECT 1 FROM erasures WHERE ended_at IS NULL)"
TEXTS, JSON = (
    ("content", "source", "key", "owner", "thread"),
    ("tags", "data"),
)  # in JSON a quote is another text
HOLDS = " OR ".join(
    [
        *(f"instr(coalesce({name}, ''), ?1) > 0" for name in TEXTS),
        *(f"instr(coalesce({name}, ''), ?2) > 0" for name in JSON),
    ]
)
WITH_TEXT = f"SELECT guid FROM records WHERE {HOLDS} UNION SELECT guid FROM versions WHERE {HOLDS}"
DELETED = "NOT EXISTS (SELECT 1 FROM records AS there WHERE there.guid = r.guid)"
LAST = "r.n = (SELECT max(n) FROM versions AS all_of_it WHERE all_of_it.guid = r.guid)"
KNOWN = "SELECT EXISTS (SELECT 1 FROM records WHERE guid = ?1) OR EXISTS (SELECT 1 FROM versions WHERE guid = ?1)"
Erases = Callable[[bytes], bool]  # whether a message holds what was erased


class Erasure(NamedTuple):
    """One that was asked for. Times are Unix ms."""

    n: int
    asked_at: int
    actor: str
    reason: str
    records: int
    versions: int
    replies: int  # that were kept for replays, and messages that waited in the store
    messages: int  # in logs and inputs
    letters: int
    left_over: str  # what could not be reached, and why; "" for nothing
    ended_at: int | None


class Erasures:
    """For one store; what changes something runs inside its open transaction."""

    def __init__(self, connection: apsw.Connection, records: RecordTable, inbox: Inbox) -> None:
        """`connection` is the store's, of which these are the tables."""
        self._connection, self._records, self._inbox = connection, records, inbox

    def matching(self, guids: Sequence[str], conditions: Conditions | None, text: str) -> list[str]:
        """The guids of records that are meant, deleted and expired ones too.

        By the conditions goes what a record is, or was last; the text may stand in any of its
        states.
        """
        self._records.complete()
        found = dict.fromkeys(
            guid for guid in guids if self._connection.execute(KNOWN, (guid,)).get
        )
        if conditions is not None:
            clauses, values = conditions.clauses()
            for which in (
                f"records AS r{where(*clauses)}",
                f"versions AS r{where(*clauses, LAST, DELETED)}",
            ):
                found |= dict.fromkeys(
                    guid
                    for (guid,) in self._connection.execute(f"SELECT guid FROM {which}", values)
                )
        if text:
            found |= dict.fromkeys(
                guid for (guid,) in self._connection.execute(WITH_TEXT, (text, _in_json(text)))
            )
        return list(found)

    def erase(
        self, guids: Iterable[str], text: str, about: tuple[int, str, str]
    ) -> tuple[int, int]:
        """Deletes these for good, and notes what they were. (records, earlier states); `about` is
        when, by whom, and why."""
        records = versions = 0
        if text:
            self._note([("text", text)])
        for guid in guids:
            place = next(stored_records(self._connection, " WHERE guid = ?", [guid]), None)
            self._note(
                [
                    ("guid", guid),
                    *(("content", one) for one in dict.fromkeys(self._texts(guid, place))),
                ]
            )
            versions += self._records.versions.count_of(guid)
            self._records.versions.forget(guid)
            if place is not None:
                self._records.remove(place)
            records += 1
        self._connection.execute(ADD, (*about, records, versions))
        self._records.complete()
        self._records.expiry.reset()
        return records, versions

    def _texts(self, guid: str, place: StoredRecord | None) -> Iterator[str]:
        """What was ever said of a record: each of its states that is kept, and what was appended to
        each."""
        now = ("", 0) if place is None else (place.content, place.whole.number)
        after = now[0]
        yield after
        for version in (
            self._records.versions.of(guid, *now)
            if place is not None
            else self._records.versions.of(guid)
        ):
            before = version.state.content
            yield before
            if after.startswith(before):
                yield after[len(before) :].strip()
            after = before

    def _note(self, wanted: Iterable[tuple[str, str]]) -> None:
        self._connection.executemany("INSERT INTO erasing(sort, text) VALUES (?, ?)", list(wanted))

    def is_open(self) -> bool:
        """Whether one has not come to its end."""
        return bool(self._connection.execute(OPEN).get)

    def wanted(self) -> list[tuple[int, str, str]]:
        """(number, sort, text) of all that is to be looked for elsewhere, in the order of the
        numbers; [] once it was."""
        return list(self._connection.execute("SELECT n, sort, text FROM erasing ORDER BY n"))

    def every(self, most: int) -> list[Erasure]:
        """The newest first."""
        return [
            Erasure._make(row)
            for row in self._connection.execute(f"{TABLE} ORDER BY n DESC LIMIT ?", (most,))
        ]

    def silence(self, erases: Erases, erases_kept: Erases, silent: Callable[[bytes], bytes]) -> int:
        """Takes what was erased out of the replies that are kept, and messages that wait with it.
        How many there were.

        A reply is replaced, since its row says that the input is done; a message that waits is
        forgotten.
        """
        self._inbox.complete()
        count, run = 0, self._connection.execute
        for table, key in (("inbox", "n"), ("producer_ids", "id")):
            kept = run(f"SELECT {key}, outputs FROM {table}")
            found = [(silent(outputs), one) for one, outputs in kept if erases_kept(outputs)]
            self._connection.executemany(f"UPDATE {table} SET outputs = ? WHERE {key} = ?", found)
            count += len(found)
        waiting = [(one,) for one, data in run("SELECT id, data FROM pending") if erases(data)]
        self._connection.executemany("DELETE FROM pending WHERE id = ?", waiting)
        return count + len(waiting)

    def forget(self, noted: int, counts: tuple[int, int, int]) -> None:
        """What was noted up to that number need not be looked for any more: so many replies,
        messages and letters went."""
        self._connection.execute("DELETE FROM erasing WHERE n <= ?", (noted,))
        self._connection.execute(COUNT, counts)

    def end(self, last: int, now_ms: int, left_over: str) -> None:
        """All up to that number is gone from everywhere, but for what is said to be left."""
        self._connection.execute(END, (now_ms, left_over, last))

    def rewrite(self) -> None:
        """Rewrites indexes and file, so that no page and no log has what was deleted. Outside a
        transaction. Raises StoreBusy.

        The copy that SQLite makes for it goes to a temporary file, not to memory.
        """
        run = self._connection.execute
        for index in INDEXES:
            run(f"INSERT INTO {index}({index}) VALUES ('optimize')")
        self._connection.pragma("temp_store", "FILE")
        try:
            run("VACUUM")
        finally:
            self._connection.pragma("temp_store", "MEMORY")
        if next(iter(run("PRAGMA wal_checkpoint(TRUNCATE)")))[0]:
            raise StoreBusy(
                "another program reads the store, and its log cannot be emptied; it is tried again"
            )


def _in_json(text: str) -> str:
    """As a string of JSON has it."""
    return orjson.dumps(text).decode()[1:-1]
