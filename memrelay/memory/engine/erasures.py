"""Erase records with their history, and rewrite every page that may still hold their text.

The transaction that deletes records also notes the erased texts, so that a later owner continues
after a crash.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import apsw
import orjson

from memrelay.memory.engine.features import FEED
from memrelay.memory.engine.feed import ChangeFeed
from memrelay.memory.engine.filter_sql import Conditions, where
from memrelay.memory.engine.fulltext import INDEXES
from memrelay.memory.engine.idempotency import pack, unpack
from memrelay.memory.engine.inbox import RETRY_SUFFIX, Inbox
from memrelay.memory.engine.models import (
    conversation_kinds,
    list_erasures,
    list_rows,
    load,
)
from memrelay.memory.engine.quotes import Matcher, Quotes, TextMatcher
from memrelay.memory.engine.records import RecordTable
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.versions import State, StoredRecord, stored_records
from memrelay.memory.errors import StoreBusy

Table = TypeVar("Table", bound=StoreTable)
INSERT = (
    "INSERT INTO erasures(asked_at, actor, reason, records, versions, left_over) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)
ADD_COUNTS = (
    "UPDATE erasures SET replies = replies + ?, messages = messages + ?, letters = letters + ? "
    "WHERE n = (SELECT max(n) FROM erasures)"
)
END = (
    "UPDATE erasures SET ended_at = ?, left_over = trim(left_over || '; ' || ?, '; ') "
    "WHERE ended_at IS NULL AND n <= ?"
)
HAS_OPEN = "SELECT EXISTS (SELECT 1 FROM erasures WHERE ended_at IS NULL)"
# JSON escapes quotes, so its columns are searched for the escaped text.
TEXTS, JSON_TEXTS = ("content", "source", "key", "owner", "thread"), ("tags", "data")
HAS_TEXT = " OR ".join(
    [
        *(f"instr(coalesce({name}, ''), ?1) > 0" for name in TEXTS),
        *(f"instr(coalesce({name}, ''), ?2) > 0" for name in JSON_TEXTS),
        # A content may be JSON too, such as the long item of a turn.
        "(?1 <> ?2 AND instr(content, ?2) > 0)",
    ]
)
IS_DELETED = "NOT EXISTS (SELECT 1 FROM records AS there WHERE there.guid = r.guid)"
IS_LAST_VERSION = "r.n = (SELECT max(n) FROM versions AS all_of_it WHERE all_of_it.guid = r.guid)"
IS_KNOWN = (
    "SELECT EXISTS (SELECT 1 FROM records WHERE guid = ?1) "
    "OR EXISTS (SELECT 1 FROM versions WHERE guid = ?1)"
)
# The key of an episode is the id of a deferred call, which begins with pipeline and input.
INPUT_OF_CALL = re.compile(r"([^/]+/\d+-\d+)\.")
# Returns whether a message holds an erased text.
Erases = Callable[[bytes], bool]


class Erasure(NamedTuple):
    """A requested erasure. Times are Unix ms."""

    n: int
    asked_at: int
    actor: str
    reason: str
    records: int
    versions: int
    # Replies kept for replays, and messages pending in the store.
    replies: int
    # Messages in logs and inputs.
    messages: int
    letters: int
    # Data that could not be erased, and why. "" for none.
    left_over: str
    ended_at: int | None


SELECT = f"SELECT {', '.join(Erasure._fields)} FROM erasures"


class _FindTable(Protocol):
    def __call__(self, cls: type[Table], /) -> Table: ...


class Erasures:
    """The erasures of one store. Methods that change data run inside its open transaction."""

    def __init__(
        self,
        connection: apsw.Connection,
        records: RecordTable,
        inbox: Inbox,
        find_table: "_FindTable",
    ) -> None:
        """`find_table` returns the store's object of a table class."""
        self._connection, self._records, self._inbox = connection, records, inbox
        self._find_table = find_table

    def _models(self) -> list["ModelErasure"]:
        return [self._find_table(load(name)) for name in list_erasures()]

    def matching(self, guids: Sequence[str], conditions: Conditions | None, text: str) -> list[str]:
        """Return the guids of selected records, including deleted and expired ones.

        The conditions apply to the current or last state of a record. The text may be in any state.
        """
        self._records.complete()
        found = dict.fromkeys(
            guid for guid in guids if self._connection.execute(IS_KNOWN, (guid,)).get
        )
        if conditions is not None:
            clauses, values = conditions.clauses()
            for source in (
                f"records AS r{where(*clauses)}",
                f"versions AS r{where(*clauses, IS_LAST_VERSION, IS_DELETED)}",
            ):
                found |= dict.fromkeys(
                    guid
                    for (guid,) in self._connection.execute(f"SELECT guid FROM {source}", values)
                )
        if text:
            found |= dict.fromkeys(
                guid
                for (guid,) in self._connection.execute(_select_guids(), (text, _json_escape(text)))
            )
        return list(found)

    def erase(
        self,
        guids: Sequence[str],
        text: str,
        about: tuple[int, str, str],
        names: Iterable[str] = (),
    ) -> tuple[int, int]:
        """Delete records with their history and note their texts. Return (records, earlier
        versions). Rows of models that have the text count as records.

        `about` is (asked_at in Unix ms, actor, reason). `names` are identifiers of a person:
        messages that have one as a whole word are erased too, with those of the inputs of erased
        episodes. Other people may say the same as the person, so texts of a conversation are noted
        only if they have an identifier.
        """
        records = versions = 0
        quotes, left_over = Quotes(names), ""
        self._note([("name", name) for name in quotes.names])
        if text:
            self._note([("text", text)])
            for statement in _delete_rows():
                values = (text, _json_escape(text)) if "?2" in statement else (text,)
                self._connection.execute(statement, values)
                records += self._connection.changes()
            self.erase_elsewhere(matcher := TextMatcher(text))
            left_over = "; ".join(
                kept for model in self._models() if (kept := model.describe_kept(matcher))
            )
        guids = self._with_dependents(guids)
        for guid in guids:
            place = next(stored_records(self._connection, " WHERE guid = ?", [guid]), None)
            self._note([("guid", guid), *dict.fromkeys(self._all_wanted(guid, place, quotes))])
            versions += self._records.versions.count_of(guid)
            self._records.versions.forget(guid)
            if place is not None:
                self._records.remove(place)
                for model in self._models():
                    model.forget_record(place.state)
            records += 1
        feed = self._find_table(ChangeFeed)
        if FEED in self._records.path.names or feed.last:
            feed.forget(guids, text)
        self._connection.execute(INSERT, (*about, records, versions, left_over))
        self._records.complete()
        self._records.expiry.reset()
        return records, versions

    def _with_dependents(self, guids: Sequence[str]) -> list[str]:
        """Return records to erase, and those that were made of them."""
        found = dict.fromkeys(guids)
        for model in self._models():
            found |= dict.fromkeys(model.take_dependents(guids))
        for model in self._models():
            model.forget_waiting(list(found))
        return list(found)

    def erase_elsewhere(self, matcher: Matcher) -> None:
        """Delete what the matcher finds in the tables of models that are no records."""
        for model in self._models():
            model.erase(matcher)

    def _all_wanted(
        self, guid: str, place: StoredRecord | None, quotes: Quotes
    ) -> Iterator[tuple[str, str]]:
        """Yield (sort, text) of what is to be erased elsewhere with a record."""
        current = () if place is None else (place.content, place.state.number)
        states = [] if place is None else [place.state]
        states += [version.state for version in self._records.versions.of(guid, *current)]
        yield "guid", guid
        is_said = bool(quotes) and any(map(_is_said, states[:1]))
        if is_said and (key := INPUT_OF_CALL.match(states[0].key or "")):
            yield "input", key[1]
        for text in _all_texts(states):
            if not is_said or quotes.in_text(text):
                yield "content", text

    def _note(self, wanted: Iterable[tuple[str, str]]) -> None:
        self._connection.executemany("INSERT INTO erasing(sort, text) VALUES (?, ?)", list(wanted))

    def is_open(self) -> bool:
        """Return whether an erasure has not finished."""
        return bool(self._connection.execute(HAS_OPEN).get)

    def wanted(self) -> list[tuple[int, str, str]]:
        """Return (number, sort, text) of every text still to be erased elsewhere, in order."""
        return list(self._connection.execute("SELECT n, sort, text FROM erasing ORDER BY n"))

    def every(self, most: int) -> list[Erasure]:
        """Return erasures, the newest first, at most `most`."""
        return [
            Erasure._make(row)
            for row in self._connection.execute(f"{SELECT} ORDER BY n DESC LIMIT ?", (most,))
        ]

    def silence(
        self,
        has_erased: Erases,
        reply_has_erased: Erases,
        replace: Callable[[bytes], bytes],
        replace_answer: Callable[[bytes], bytes],
    ) -> int:
        """Remove erased texts from stored replies and pending messages. Return how many had them.

        A reply is replaced, because its row marks the input as done. A pending message is deleted,
        with the committed responses of its deferred call, also if its idempotency key has an erased
        text.
        """
        self._inbox.complete()
        run, run_many = self._connection.execute, self._connection.executemany
        replies = [
            (replace(outputs), n)
            for n, key, outputs in run("SELECT n, id, outputs FROM inbox")
            if has_erased(key.encode()) or reply_has_erased(outputs)
        ]
        run_many("UPDATE inbox SET outputs = ? WHERE n = ?", replies)
        answers = [
            (pack(replace_answer(answer)), n)
            for n, packed in run("SELECT n, answer FROM idempotency_keys")
            if reply_has_erased(answer := unpack(packed))
        ]
        run_many("UPDATE idempotency_keys SET answer = ? WHERE n = ?", answers)
        pending = [
            (ident,)
            for ident, key, *texts in run("SELECT id, producer, data, request, result FROM pending")
            if any(text and has_erased(text) for text in (ident.encode(), key.encode(), *texts))
        ]
        run_many("DELETE FROM pending WHERE id = ?", pending)
        for model in self._models() if pending else ():
            model.forget_calls([ident.removesuffix(RETRY_SUFFIX) for (ident,) in pending])
        kept = sum(model.silence(has_erased) for model in self._models())
        return len(replies) + len(answers) + len(pending) + kept

    def forget(self, noted: int, counts: tuple[int, int, int]) -> None:
        """Delete the noted texts up to that number, and add the counts of erased replies, messages
        and letters.
        """
        self._connection.execute("DELETE FROM erasing WHERE n <= ?", (noted,))
        self._connection.execute(ADD_COUNTS, counts)

    def end(self, last: int, now_ms: int, left_over: str) -> None:
        """Mark the erasures up to that number as finished, except for the data in `left_over`.

        It is added to what the erasure itself has left.
        """
        self._connection.execute(END, (now_ms, left_over, last))

    def rewrite(self) -> None:
        """Rewrite indexes and file so that no page and no log has deleted data.

        Runs outside of a transaction. SQLite's copy goes to a temporary file, not to memory. Raises
        StoreBusy.
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
                "the log of the store cannot be emptied while another program reads it; "
                "it is retried"
            )


class ModelErasure(StoreTable):
    """What an erasure has to do in the tables of a model that are no records."""

    def erase(self, matcher: Matcher) -> None:
        """Delete what the matcher finds."""

    def silence(self, has_erased: Erases) -> int:
        """Delete the messages that hold an erased text, and return their number."""
        return 0

    def describe_kept(self, matcher: Matcher) -> str:
        """Return where the matcher still finds something, which the caller has to change, or ""."""
        return ""

    def take_dependents(self, guids: Sequence[str]) -> list[str]:
        """Return further records that have to be erased with these, and forget how they depend."""
        return []

    def forget_waiting(self, guids: Sequence[str]) -> None:
        """Delete new records that wait under these guids, and are not written yet."""

    def forget_record(self, record: State) -> None:
        """Delete what belongs to an erased record."""

    def forget_calls(self, ids: Sequence[str]) -> None:
        """Delete what is kept for deferred calls that are erased."""


def _select_guids() -> str:
    """Return the SQL for the guids of the records that have a text in any of their states.

    ?1 is the text, ?2 the text as JSON escapes it.
    """
    return (
        f"SELECT guid FROM records WHERE {HAS_TEXT} "
        f"UNION SELECT guid FROM versions WHERE {HAS_TEXT}"
    )


def _delete_rows() -> Iterator[str]:
    """Yield the SQL that deletes the rows of models that have a text. The marks are as above."""
    for rows in list_rows():
        conditions = [f"instr({name}, ?1) > 0" for name in rows.texts]
        conditions += [f"instr({name}, ?2) > 0" for name in rows.json]
        if conditions:
            yield f"DELETE FROM {rows.table} WHERE {' OR '.join(conditions)}"


def _is_said(state: State) -> bool:
    """Return whether a record belongs to a conversation, such as a turn or an episode."""
    return state.thread is not None or state.kind in conversation_kinds()


def _all_texts(states: Sequence[State]) -> Iterator[str]:
    """Yield the content of each state, the newest first, and the text that was appended to each."""
    after = None
    for state in states:
        before = state.content
        yield before
        if after is not None and after.startswith(before):
            yield after[len(before) :].strip()
        after = before


def _json_escape(text: str) -> str:
    """Return the text as it appears within a JSON string."""
    return orjson.dumps(text).decode()[1:-1]
