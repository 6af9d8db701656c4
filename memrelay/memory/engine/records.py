"""The table of records. New rows are buffered until the table is read, and at the latest until the
commit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from operator import itemgetter
from typing import Any

import apsw

from memrelay.memory.engine.appends import SEAM, AppendTable, LongRecord
from memrelay.memory.engine.features import DeferredRecord, WritePath
from memrelay.memory.engine.feed import (
    APPENDED,
    CREATED,
    DELETED,
    EVENT,
    EXPIRED,
    RESTORED,
    UPDATED,
    ChangeType,
)
from memrelay.memory.engine.filter_sql import (
    HAS_AGENT_MEMORY,
    HAS_PERIODS,
    NOT_VALID,
    Conditions,
    Expiry,
    Filters,
    where,
)
from memrelay.memory.engine.fulltext import INDEXES, FullTextIndex, best_matches
from memrelay.memory.engine.rows import Changes, RowInsert
from memrelay.memory.engine.table import ChangeHook
from memrelay.memory.engine.versions import State, StoredRecord, VersionTable, What, stored_records
from memrelay.memory.errors import DeferredMatch, PolicyStop
from memrelay.memory.records import columns
from memrelay.memory.records.columns import ORDER, column_list
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.kinds import is_agent_memory
from memrelay.memory.records.record import (
    PLAIN,
    Record,
    RecordExtras,
    beginning,
    checksum,
    content_checksum,
    record_of,
)
from memrelay.memory.search.text.words import parts_of

# By row, the best first.
Scores = dict[int, float]
NEW, READ = column_list(columns.NEW), column_list(columns.READ)
EXTRAS, STATE = column_list(columns.EXTRAS), column_list(columns.STATE)
INSERT = RowInsert("records", f"{NEW}, crc, parts, born, origin", "row")
INSERT_TURNS = RowInsert("records", f"{NEW}, crc, parts, born, origin, thread, seq", "row")
INSERT_STATES = RowInsert("records", f"{STATE}, content, parts", "row")
PUT_BACK = (
    f"INSERT INTO records(row, {STATE}, content, parts) "
    f"VALUES ({', '.join('?' * (len(columns.STATE) + 3))})"
)
LAST_SEQ = "SELECT coalesce(max(seq), -1) FROM records WHERE thread = ?"
SELECT = f"SELECT {READ}, 0.0 FROM records AS r"
PAGE = f"SELECT r.row, {READ}, 0.0, {EXTRAS} FROM records AS r"
# Columns of a page's row before its extras.
WIDTH = 1 + len(Record._fields)
COUNT = "SELECT count(*) FROM records AS r"
MATCHING = "r.row IN (SELECT rowid FROM {0} WHERE {0} MATCH ?)"
NOT_MATCHING = "r.row NOT IN (SELECT rowid FROM {index} WHERE {index} MATCH ?)"
UPDATE_CONTENT = (
    "UPDATE records SET content = ?, parts = ?, updated_at = ?, born = ?, origin = ?, "
    "number = number + 1, crc = crc & 0x7FFFFFFF00000000 | ? WHERE row = ?"
)
SELECT_EXTRAS = f"SELECT {EXTRAS} FROM records WHERE guid = ?"
AT_ROW = f"SELECT {READ} FROM records WHERE row = ?"
STATE_VALUES = (
    "scope = ?, kind = ?, tags = ?, key = ?, owner = ?, data = ?, expires_at = ?, in_context = ?, "
    "encrypted = ?, valid_from = ?, valid_to = ?, updated_at = ?, crc = ?, born = ?, "
    "origin = ?, number = number + 1 WHERE row = ?"
)
# Keeps the vector: triggers delete it only if its content or source changes.
OVERWRITE_METADATA = f"UPDATE records SET {STATE_VALUES}"
OVERWRITE = f"UPDATE records SET content = ?, parts = ?, source = ?, {STATE_VALUES}"
# A fixed statement for one record, which is faster than building the conditions of `oldest`.
BY_GUID = " WHERE guid = ?"
BEYOND = {"asc": "r.row > ?", "desc": "r.row < ?"}
# The `data` of announced changes.
APPEND, RESTORATION = {EVENT: APPENDED}, {EVENT: RESTORED}
_record = itemgetter(1)
REPEATED_GUID = "UNIQUE constraint failed: records.guid"


def is_repeated_guid(error: BaseException) -> bool:
    """Return whether a transaction failed because a new record's guid exists.

    The guid derives from the input, so the input ran before.
    """
    return isinstance(error, apsw.ConstraintError) and REPEATED_GUID in str(error)


class RecordTable:
    """Reads and writes records inside the store's open transaction.

    `transaction` opens one for a reader that has none and must merge appended texts first.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        transaction: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self._connection, self._transaction = connection, transaction
        self._new: list[tuple[Any, ...]] = []
        # Buffered rows with a thread.
        self._new_turns: list[tuple[Any, ...]] = []
        # Buffered rows with all columns.
        self._new_states: list[tuple[Any, ...]] = []
        # Last position by thread, for threads that this transaction extended.
        self._last_seqs: dict[str, int] = {}
        # Collects the rows that are edited and deleted, if a reader needs them.
        self.changes: Changes | None = None
        self.versions = VersionTable(connection)
        self._origins = self.versions.origins
        self.appends = AppendTable(connection)
        # The features of the store, which `Store.compose` sets.
        self.path = WritePath()
        # What models keep in memory about the records of a kind.
        self.hooks: dict[str, ChangeHook] = {}
        self._index = FullTextIndex(connection)
        # The highest row.
        self.last_row = 0
        self.expiry = Expiry(connection)
        # Whether the table may have memory of agents, which generic reads leave out.
        self.has_agent_memory = False
        # Values that policies found in the texts of the current input, with their replacements.
        self.findings: dict[str, str] = {}
        # New records that policies see before the commit. None if they see each when it is written.
        self._deferred: list[DeferredRecord] | None = None
        # A stop of an operation that had changed something, which a block may have caught.
        self.late_stop: PolicyStop | None = None
        # Whether a record may have a period of validity.
        self.has_periods = False
        self.reset()

    def reset(self) -> None:
        """Drop buffered rows and read the committed state, initially and after a rollback."""
        for buffered in (self._new, self._new_turns, self._new_states):
            buffered.clear()
        self._last_seqs.clear()
        self.findings.clear()
        self._deferred = self.late_stop = None
        self.versions.reset()
        self.appends.reset()
        self._reset_hooks()
        self.expiry.reset()
        self.has_agent_memory = bool(self._connection.execute(HAS_AGENT_MEMORY).get)
        self.has_periods = bool(self._connection.execute(HAS_PERIODS).get)
        self.last_row = self._connection.execute("SELECT coalesce(max(row), 0) FROM records").get
        self.versions.last_change = self._connection.execute("SELECT changes FROM commits").get
        self._index.reset(self.last_row)

    def _reset_hooks(self) -> None:
        for hook in self.hooks.values():
            hook.reset()

    def set_actor(
        self,
        now_ms: int,
        actor: str,
        reason: str = "",
        origin: tuple[str, ...] = (),
        input_id: str = "",
    ) -> None:
        """Set the time (Unix ms), actor and reason of the following changes.

        The time also decides which records have expired. `origin` has the values of Origin, by
        default only the actor. `input_id` is the id of the input that makes the changes.
        """
        self.versions.current_act = (now_ms, actor, reason)
        origins = self._origins
        origins.current = origin = origin or (actor, "", "", "", "", "", "")
        origins.number = origins.known.get(origin, 0)
        origins.input_id = input_id

    def announce(
        self, change: ChangeType, subject: str, data: Mapping[str, Any] | None = None
    ) -> None:
        """Report a change of the current actor to the features of the store.

        `subject` is the id of what changed. `data` has further ids, and no values.
        """
        for changed in self.path.changed:
            changed(change, subject, data)

    def admit(self, new: State, before: State | None = None) -> State:
        """Return what the policies of the store make of a record, or of a row in its form. `before`
        is its present state. Raises PolicyStop.
        """
        for admit in self.path.admit:
            new = admit(new, before)
        return new

    def defer_admission(self) -> None:
        """Let policies see plain new records of this transaction together, if that is enough. The
        owner calls `check_deferred` before the commit.
        """
        features = self.path.admitting
        self._deferred = [] if features and all(one.may_defer() for one in features) else None

    def check_deferred(self) -> None:
        """Raise DeferredMatch if a policy may apply to a record that it has not seen. Then the
        transaction has to run again.
        """
        deferred, self._deferred = self._deferred, None
        if deferred and not all(one.admits_all(deferred) for one in self.path.admitting):
            raise DeferredMatch

    def admit_texts(
        self, kind: str, texts: Sequence[str], names: Sequence[str] = ()
    ) -> Sequence[str]:
        """Return what the policies of the store make of texts that are no record. `kind` names
        their owner. `names` belong to them and cannot change. Raises PolicyStop.
        """
        for admit in self.path.admit_texts:
            texts = admit(kind, texts, names)
        return texts

    def insert(
        self, record: tuple[str, str, str, str, str, str, int, int], *, is_admitted: bool = False
    ) -> None:
        """Insert a record, its values in the order of columns.NEW. Raises PolicyStop."""
        if self.path.admit and not is_admitted:
            if self._deferred is not None:
                self._deferred.append((record, self._origins.current))
            else:
                new = make_state(record)
                if (admitted := self.admit(new)) is not new:
                    self.insert_state(admitted, is_admitted=True)
                    return
        self.last_row += 1
        self.versions.last_change = born = self.versions.last_change + 1
        guid, scope, kind, content, source, tags, _, _ = record
        for created in self.path.created:
            created(guid)
        crc = checksum(beginning(scope, kind, source, tags), guid, content)
        if (parts := parts_of(content)) is not None:
            self._index.has_new_parts = True
        origin = self._origins.number or self._origins.add()
        self._new.append((self.last_row, *record, crc, parts, born, origin))

    def insert_turn(
        self, record: tuple[str, str, str, str, str, str, int, int], thread: str, seq: int | None
    ) -> None:
        """Insert a record into a thread at the position `seq`, or at the end for None. Raises
        PolicyStop.
        """
        if self.path.admit:
            new = make_state(record)._replace(thread=thread, seq=seq)
            if (admitted := self.admit(new)) is not new:
                self.insert_state(admitted, is_admitted=True)
                return
        seq = self._next_seq(thread, seq)
        self.insert(record, is_admitted=True)
        self._new_turns.append((*self._new.pop(), thread, seq))

    def insert_state(
        self, new: State, *, is_restored: bool = False, is_admitted: bool = False
    ) -> State:
        """Insert a record with all columns and return it as stored. Raises PolicyStop.

        Its checksum is computed here, and its position in the thread if `seq` is None.
        """
        if self.path.admit and not is_admitted:
            new = self.admit(new)
        self.last_row += 1
        self.announce(CREATED, new.guid, RESTORATION if is_restored else None)
        seq = self._next_seq(new.thread, new.seq) if new.thread else None
        born, origin = self.count_change(), self._origins.add()
        stored = new._replace(seq=seq, born=born, origin=origin, crc=new.checksum())
        parts = parts_of(new.content)
        self._index.has_new_parts |= parts is not None
        self._new_states.append((self.last_row, *stored, parts))
        self.expiry.concerns |= new.expires_at is not None
        self.has_agent_memory |= is_agent_memory(new.kind)
        self.has_periods |= (new.valid_from, new.valid_to) != (None, None)
        if new.kind in self.hooks:
            self.hooks[new.kind].inserted(new)
        return stored

    def _next_seq(self, thread: str, seq: int | None) -> int:
        """Return the position of a new turn: the given one, or after all existing turns."""
        last = self._last_seqs.get(thread)
        # No buffered row belongs to this thread.
        if last is None:
            last = self._connection.execute(LAST_SEQ, (thread,)).get
        seq = min(last + 1, LARGEST) if seq is None else seq
        self._last_seqs[thread] = max(last, seq)
        return seq

    def flush(self) -> None:
        """Bring the table up to date: insert the buffered rows and merge all appended texts."""
        self._insert_buffered()
        if self.appends:
            self.merge_appended(self.appends.rows())

    def _insert_buffered(self) -> None:
        if self._new:
            INSERT.run(self._connection, self._new)
            self._new.clear()
        if self._new_turns:
            INSERT_TURNS.run(self._connection, self._new_turns)
            self._new_turns.clear()
        if self._new_states:
            INSERT_STATES.run(self._connection, self._new_states)
            self._new_states.clear()
            for hook in self.hooks.values():
                hook.flushed()

    def complete(self) -> None:
        """Write all buffers and merge all appended texts."""
        self.flush()
        self.store_buffered()
        self._index.write_terms()

    def prepare_search(self) -> None:
        """Bring table and indexes up to date. Versions and changes stay buffered."""
        self.flush()
        self._index.catch_up(self.last_row)
        self._index.write_terms()

    def store_buffered(self) -> None:
        """Write all buffers before the commit. Appended texts stay apart within their bounds."""
        self._insert_buffered()
        if self.appends:
            while (row := self.appends.surplus) is not None:
                self.merge_appended([row])
            self.appends.flush()
        self.versions.flush()
        for complete in self.path.complete:
            complete()
        self._index.catch_up(self.last_row)
        self._last_seqs.clear()

    def by_guid(self, guid: str) -> StoredRecord | None:
        """Return a record, None if it does not exist or has expired."""
        if self.expiry.concerns:
            return self.oldest({"guid": guid})
        self._insert_buffered()
        return self._merged(next(stored_records(self._connection, BY_GUID, [guid]), None))

    def oldest(self, filters: Filters) -> StoredRecord | None:
        """Return the first record with these values. Agent memory needs a guid. None for none."""
        self._insert_buffered()
        clauses, values = self._clauses(self._generic(filters))
        found = stored_records(self._connection, f"{where(*clauses)} ORDER BY row LIMIT 1", values)
        return self._merged(next(found, None))

    def _merged(self, place: StoredRecord | None) -> StoredRecord | None:
        """Return a record as it is after its appended texts are merged."""
        if place is None or place.row not in self.appends:
            return place
        self.merge_appended([place.row])
        return next(stored_records(self._connection, " WHERE row = ?", [place.row]), None)

    def _generic(self, filters: Filters) -> Conditions:
        """Return conditions that leave out the memory of agents, unless a guid selects it."""
        return Conditions(filters, without_agents=self.has_agent_memory and "guid" not in filters)

    def _clauses(self, conditions: Conditions) -> tuple[list[str], list[Any]]:
        return self.expiry.clauses(conditions, self.versions.now_ms)

    def replace_content(
        self, place: StoredRecord, new: str, now_ms: int, what: What = "append"
    ) -> None:
        """Change the content of a record and keep the earlier version. Raises PolicyStop."""
        if self.path.admit:
            wanted = place.state._replace(content=new, updated_at=now_ms)
            admitted = self.admit(wanted, place.state)
            if admitted is not wanted:
                event = APPENDED if what == "append" else ""
                self.overwrite(place, admitted, what, event=event, is_admitted=True)
                return
        born = self._record_change(place, what, new, APPEND if what == "append" else None)
        origin, crc = self._origins.add(), content_checksum(new)
        values = (new, parts_of(new), now_ms, born, origin, crc, place.row)
        self._connection.execute(UPDATE_CONTENT, values)

    def growing(self, guid: str, filters: Filters) -> LongRecord | None:
        """Return the record that `by_guid` or else `oldest` finds, if it has appended texts."""
        if guid or not filters:
            return self.appends.by_guid(guid, self.versions.now_ms)
        if not self.appends:
            return None
        self._insert_buffered()
        return self.appends.oldest(*self._clauses(self._generic(filters)))

    def extend(self, record: LongRecord, text: str, now_ms: int) -> None:
        """Append a text to a long record and keep the earlier version. Raises PolicyStop."""
        end = ""
        if self.path.admit:
            end = self.appends.find_end(record)
            admitted = self._admit_appended(record, end, text, now_ms)
            if admitted is None:
                return
            text = admitted
        born = self.count_change()
        self.versions.add_begun(record.state, record.length, record.row)
        self.announce(UPDATED, record.guid, APPEND)
        self.appends.add(record, text, now_ms, (born, self._origins.add()))
        if self.path.admit:
            record.end = (end + text)[-SEAM:]

    def _admit_appended(self, record: LongRecord, end: str, text: str, now_ms: int) -> str | None:
        """Return the text to append to a record that ends with `end`, as policies let it in. None
        if they change the record too: it is written here as a whole.
        """
        before = State._make((*record.state, end))
        wanted = before._replace(content=end + text, updated_at=now_ms)
        admitted = self.admit(wanted, before)
        if admitted is wanted:
            return text
        is_same = admitted._replace(content=wanted.content) == wanted
        if is_same and admitted.content.startswith(end):
            return admitted.content[len(end) :]
        place = self.by_guid(record.guid)
        assert place is not None
        start = place.content[: len(place.content) - len(end)]
        admitted = admitted._replace(content=start + admitted.content)
        self.overwrite(place, admitted, "append", event=APPENDED, is_admitted=True)
        return None

    def merge_appended(self, rows: Iterable[int]) -> None:
        """Merge the appended texts of records into their contents. Their versions exist already."""
        with nullcontext() if self._connection.in_transaction else self._transaction():
            for row in rows:
                if (place := self.appends.merge(row)) is not None:
                    self._mark_changed(place)

    def count_change(self) -> int:
        """Return the number of the change that is about to be made."""
        self.versions.last_change += 1
        return self.versions.last_change

    def _record_change(
        self, place: StoredRecord, what: What, content: str, data: Mapping[str, str] | None
    ) -> int:
        """Keep the earlier version, mark the indexes and the row as changed, and return the number
        of the change.
        """
        born = self.count_change()
        self.versions.add(place, what, content)
        self.announce(UPDATED, place.guid, data)
        self._mark_changed(place, is_indexed=content == place.content)
        return born

    def _mark_changed(self, place: StoredRecord, *, is_indexed: bool = False) -> None:
        if not is_indexed:
            self._index.mark_changed(place.row, place.content, place.parts)
        if self.changes is not None:
            self.changes.add(place.row)

    def delete(self, place: StoredRecord) -> None:
        """Delete a record and keep its last version."""
        self.count_change()
        self.versions.add(place, "delete")
        self.remove(place)

    def remove(self, place: StoredRecord, change: ChangeType = DELETED) -> None:
        """Remove a record from the table without keeping a version, and announce the change."""
        # It may be the last of a thread. No record of it is buffered, because it was found.
        self._last_seqs.clear()
        self._index.mark_deleted(place.row, place.content, place.parts)
        if self.changes is not None:
            self.changes.add(place.row)
        self._connection.execute("DELETE FROM records WHERE row = ?", (place.row,))
        self.announce(change, place.guid)
        _, _, scope, kind, *_ = place.values
        if kind in self.hooks:
            self.hooks[kind].removed(scope)

    def delete_all(self, filters: Filters) -> int:
        """Delete all records with the values in `filters`, keep their last versions and return
        their number.
        """
        self.complete()
        clauses, values = self._clauses(Conditions(filters))
        which = where(*clauses)
        self.count_change()
        self.versions.add_deleted(which, values)
        self._reset_hooks()
        return self._delete_matching(which, values, DELETED)

    def _delete_matching(self, which: str, values: list[Any], change: ChangeType) -> int:
        """Delete the records that a WHERE clause on `records AS r` selects; return their number.

        The indexes must be in sync. The change is announced.
        """
        for selected in self.path.selected:
            selected(change, which, values)
        self._index.delete_matching(which, values)
        if self.changes is not None:
            rows = self._connection.execute(f"SELECT r.row FROM records AS r{which}", values)
            self.changes.add_some(row for (row,) in rows)
        self._connection.execute(f"DELETE FROM records AS r{which}", values)
        return self._connection.changes()

    def bring_back(self, deleted: State, wanted: State) -> None:
        """Restore a deleted record as `wanted`, after all others and at its place in the thread.

        It keeps its expiry. Raises PolicyStop, before it changes anything.
        """
        wanted = wanted._replace(number=deleted.number + 2, expires_at=deleted.expires_at)
        wanted = self.admit(wanted)
        self.count_change()
        self.versions.add_absence((*deleted._replace(number=deleted.number + 1)[:-1],))
        self.insert_state(wanted, is_restored=True, is_admitted=True)

    def revert(self, place: StoredRecord, wanted: State) -> None:
        """Set the content and fields of a record to those of an earlier version. It keeps its
        expiry.
        """
        wanted = wanted._replace(expires_at=place.state.expires_at)
        self.overwrite(place, wanted, "restore", event=RESTORED)

    def overwrite(
        self,
        place: StoredRecord,
        wanted: State,
        what: What = "update",
        *,
        event: str = "",
        is_admitted: bool = False,
    ) -> State:
        """Change all fields of a record except its guid, its creation time and its thread.

        `event` is the name of the change, by default "record.updated". Returns the record as
        stored. Raises PolicyStop.
        """
        if self.path.admit and not is_admitted:
            wanted = self.admit(wanted, place.state)
        data = {EVENT: event} if event else None
        born = self._record_change(place, what, wanted.content, data)
        crc, before, origin = wanted.checksum(), place.state, self._origins.add()
        if wanted.scope != before.scope and wanted.kind in self.hooks:
            self.hooks[wanted.kind].moved(before.scope, wanted.scope)
        is_same = (wanted.content, wanted.source) == (before.content, before.source)
        texts = () if is_same else (wanted.content, parts_of(wanted.content), wanted.source)
        self._connection.execute(
            OVERWRITE_METADATA if is_same else OVERWRITE,
            (
                *texts,
                *(wanted.scope, wanted.kind, wanted.tags, wanted.key, wanted.owner, wanted.data),
                *(wanted.expires_at, wanted.in_context, wanted.encrypted),
                *(wanted.valid_from, wanted.valid_to, wanted.updated_at),
                *(crc, born, origin, place.row),
            ),
        )
        self.expiry.concerns |= wanted.expires_at is not None
        self.has_periods |= (wanted.valid_from, wanted.valid_to) != (None, None)
        return wanted._replace(crc=crc, born=born, origin=origin, number=before.number + 1)

    def withdraw(self, place: StoredRecord) -> None:
        """Remove a record from a copy of the store. Nothing is announced."""
        self._index.mark_deleted(place.row, place.content, place.parts)
        self._connection.execute("DELETE FROM records WHERE row = ?", (place.row,))

    def put_back(self, rows: Sequence[tuple[int, State]]) -> None:
        """Put records into free rows of a copy of the store, as they were."""
        self._connection.executemany(
            PUT_BACK, ((row, *state, parts_of(state.content)) for row, state in rows)
        )
        for row, _ in rows:
            self._index.mark_new(row)
        self.last_row = self._connection.execute("SELECT coalesce(max(row), 0) FROM records").get

    def expired_rows(self) -> list[int]:
        """Return the rows that have expired and are not deleted yet. No row may be buffered."""
        return self.expiry.rows(self.versions.now_ms)

    def delete_expired(self, now_ms: int, most: int) -> int:
        """Delete up to `most` expired records with their versions, and return their number."""
        self.complete()
        which, values = self.expiry.earliest(now_ms, most)
        for hook in self.hooks.values():
            hook.removes(which, values)
        self.versions.forget_matching(which, values)
        deleted = self._delete_matching(which, values, EXPIRED)
        self.expiry.reset()
        return deleted

    def select(
        self, conditions: Conditions, order: str, limit: int | None, offset: int
    ) -> Iterator[Record]:
        """Yield matching records, the oldest first for `order` "asc", the newest
        first for "desc".
        """
        self.flush()
        clauses, values = self._clauses(conditions)
        window = " LIMIT ? OFFSET ?" if limit is not None or offset else ""
        if window:
            values += [-1 if limit is None else limit, offset]
        return map(
            record_of,
            self._connection.execute(SELECT + where(*clauses) + ORDER[order] + window, values),
        )

    def at_rows(self, scores: Scores) -> Iterator[Record]:
        """Yield the records at these rows, in the order of `scores` and with their scores."""
        self.flush()
        for row, score in scores.items():
            for values in self._connection.execute(AT_ROW, (row,)):
                yield record_of((*values, score))

    def search(
        self,
        match: str,
        unwanted: str,
        conditions: Conditions,
        limit: int,
        *,
        best: Scores | None = None,
    ) -> Iterator[Record]:
        """Yield records that match an FTS5 expression, in the order of `placed`."""
        return map(_record, self.placed(match, unwanted, conditions, limit, best=best))

    def placed(
        self,
        match: str,
        unwanted: str,
        conditions: Conditions,
        limit: int,
        *,
        best: Scores | None = None,
    ) -> Iterator[tuple[int, Record]]:
        """Return (row, record with its score) for records that match `match` and not `unwanted`.

        Records that match by content come first, the best first. `best` has their scores if they
        are known. Records that match by parts of words follow. The limit applies last.
        """
        self.prepare_search()
        clauses, values = self._clauses(conditions)
        if unwanted:
            clauses = [NOT_MATCHING.format(index="parts_fts"), *clauses]
            values = [unwanted, *values]
        contents = (
            best_matches(self._connection, "records_fts", match, (clauses, values), limit)
            if best is None
            else zip(best, self.at_rows(best), strict=True)
        )
        if not self._index.has_parts:
            return contents
        others = [NOT_MATCHING.format(index="records_fts"), *clauses], [match, *values]
        return self._then_parts(contents, match, others, limit)

    def _then_parts(
        self,
        contents: Iterable[tuple[int, Record]],
        match: str,
        others: tuple[Sequence[str], Sequence[Any]],
        limit: int,
    ) -> Iterator[tuple[int, Record]]:
        """Yield what matches by content, then what matches by parts and meets `others`."""
        remaining = limit
        for found in contents:
            remaining -= 1
            yield found
        if remaining:
            yield from best_matches(self._connection, "parts_fts", match, others, remaining)

    def count_matches(self, match: str, unwanted: str, conditions: Conditions) -> int:
        """Return how many records `search` yields without a limit, or `latest` if `match` is ""."""
        self.prepare_search()
        clauses, values = self._clauses(conditions)
        for index in (INDEXES[1:] if match else INDEXES) if unwanted else ():
            clauses = [NOT_MATCHING.format(index=index), *clauses]
            values = [unwanted, *values]
        if match:
            clauses = [f"({' OR '.join(map(MATCHING.format, INDEXES))})", *clauses]
            values = [match, match, *values]
        return int(self._connection.execute(COUNT + where(*clauses), values).get)

    def latest(self, unwanted: str, conditions: Conditions, limit: int | None) -> Iterator[Record]:
        """Yield the newest records that do not match an FTS5 expression, "" for none."""
        self.prepare_search()
        clauses, values = self._clauses(conditions)
        if unwanted:
            clauses = [*clauses, *(NOT_MATCHING.format(index=index) for index in INDEXES)]
            values = [*values, unwanted, unwanted]
        sql = SELECT + where(*clauses) + ORDER["desc"] + " LIMIT ?"
        window = -1 if limit is None else limit
        return map(record_of, self._connection.execute(sql, [*values, window]))

    def not_valid(self, at_ms: int | None) -> dict[int, str]:
        """Return row -> guid of records that are not valid at a time, Unix ms; None for now."""
        if not self.has_periods:
            return {}
        self._insert_buffered()
        at_ms = self.versions.now_ms if at_ms is None else at_ms
        return dict(self._connection.execute(NOT_VALID, (at_ms,)))

    def extras(self, guid: str) -> RecordExtras:
        """Return the extras of a record."""
        self.flush()
        return next(
            map(RecordExtras._make, self._connection.execute(SELECT_EXTRAS, (guid,))), PLAIN
        )

    def replace(
        self, before: Record, after: Record, extras: RecordExtras, *, event: str = ""
    ) -> None:
        """Update content, fields, tags, extras and expiry of a record. It stays in its
        thread. `event` is the name of the change, by default "record.updated".
        """
        place = self.by_guid(before.guid)
        if place is None:
            return
        self.overwrite(place, place.state.with_values(after, extras), event=event)

    def page(
        self, conditions: Conditions, order: str, beyond: int | None, limit: int, *, offset: int = 0
    ) -> Iterator[tuple[int, Record, RecordExtras]]:
        """Yield (row, record, extras) of matching records, skipping `offset`.

        `order` is a key of ORDER. `beyond` is a row, for the order of arrival.
        """
        self.flush()
        clauses, values = self._clauses(conditions)
        if beyond is not None:
            clauses, values = [BEYOND[order], *clauses], [beyond, *values]
        found = self._connection.execute(
            f"{PAGE}{where(*clauses)}{ORDER[order]} LIMIT {limit:d} OFFSET {offset:d}", values
        )
        return ((row[0], record_of(row[1:WIDTH]), RecordExtras._make(row[WIDTH:])) for row in found)

    def count(self, conditions: Conditions) -> int:
        """Return the number of matching records."""
        self.flush()
        clauses, values = self._clauses(conditions)
        return int(self._connection.execute(COUNT + where(*clauses), values).get)


def make_state(record: tuple[str, str, str, str, str, str, int, int]) -> State:
    """Return a new record with all columns. Its values are in the order of columns.NEW."""
    guid, scope, kind, content, source, tags, created_at, updated_at = record
    none = None
    return _make_state((
        guid, 1, scope, kind, source, tags, created_at, updated_at, none, none, none, none, 0, 0,
        none, none, none, none, 0, 0, none, content,
    ))  # fmt: skip


# Creates a State from an iterable of its fields, without the Python code of NamedTuple.
_make_state: Callable[[Iterable[Any]], State] = partial(tuple.__new__, State)
