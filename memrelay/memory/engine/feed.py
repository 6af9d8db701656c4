"""The change feed of a store: one row for each change, written in the transaction of the change.

Rows hold ids and never values. They are buffered until they are read, and at the latest until the
commit. The newest row is never deleted, because SQLite would assign its number again and a
consumer's cursor would skip the next change.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import orjson

from memrelay.memory.engine.features import Feature

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

ChangeType = Literal[
    "record.created",
    "record.updated",
    "record.deleted",
    "record.expired",
    # Has no subject: consumers that keep a copy of the records read them again.
    "record.erased",
    "memory.created",
    "memory.updated",
    "memory.deleted",
    # The entry stays as it is: a duplicate confirms it.
    "entry.skipped",
    # The sources of recipes. The subject names the instance; `data` has further ids.
    "kv.set",
    "kv.deleted",
    "kv.cleared",
    "event.appended",
    "events.appended",
    "node.added",
    "nodes.added",
    "edge.added",
    "edges.added",
    "edge.deleted",
    "view.created",
    "view.deleted",
    # A policy has acted on a write. The subject is the guid of the record, "" for none; `data` has
    # the policy and its action.
    "policy.verdict",
]
TYPES: tuple[str, ...] = get_args(ChangeType)
CREATED: ChangeType = "record.created"
UPDATED: ChangeType = "record.updated"
DELETED: ChangeType = "record.deleted"
EXPIRED: ChangeType = "record.expired"
ERASED: ChangeType = "record.erased"
SKIPPED: ChangeType = "entry.skipped"
VERDICT: ChangeType = "policy.verdict"
# What a change of a record is called for others than readers of the feed: `event` in the row's
# `data`, if the type does not say it.
EVENT = "event"
APPENDED, RESTORED = "record.appended", "record.restored"
COLUMNS = "at, type, subject, actor, data"
WIDTH = 5
# Rows per statement.
TOGETHER = 32
# Rows per deletion, which takes about 1 ms.
DELETED_TOGETHER = 1000
INSERT_SELECTED = (
    "INSERT INTO changes(at, type, subject, actor) SELECT ?, ?, guid, ? FROM records AS r"
)
SELECT = f"SELECT n, {COLUMNS} FROM changes WHERE n > ? ORDER BY n LIMIT ?"
LAST = "SELECT coalesce(max(n), 0) FROM changes"
OLDEST = "SELECT n, at FROM changes ORDER BY n LIMIT 1"
DELETE_SUBJECTS = "DELETE FROM changes WHERE subject IN (SELECT value FROM json_each(?))"
DELETE_TEXT = (
    "DELETE FROM changes WHERE instr(subject, ?1) > 0 OR instr(actor, ?1) > 0 "
    "OR instr(ifnull(data, ''), ?2) > 0"
)
DELETE_OLDEST = f"DELETE FROM changes WHERE n < min(?, ({LAST})) AND at < ?"


class Change(NamedTuple):
    """A row of the feed. `at` is Unix ms. `data` is JSON, None for none."""

    n: int
    at: int
    type: str
    subject: str
    actor: str
    data: str | None


class ChangeFeed(Feature):
    """Adds and reads changes. A store without this feature only reads those that it has."""

    def __init__(self, store: "Store") -> None:
        super().__init__(store)
        # The values of the buffered rows, one after the other: a tuple for each row costs more.
        self._new: list[Any] = []
        # The number of the newest change that `take_last` has not returned.
        self._new_last: int | None = None

    def reset(self) -> None:
        """Drop the changes of the open transaction after a rollback."""
        self._new.clear()
        self._new_last = None

    def created(self, guid: str) -> None:
        """Add the creation of a record."""
        at, actor, _ = self._versions.current_act
        self._new += (at, CREATED, guid, actor, None)

    def changed(
        self, change: ChangeType, subject: str, data: Mapping[str, Any] | None = None
    ) -> None:
        """Add a change of the current actor. `subject` is the id of what changed."""
        at, actor, _ = self._versions.current_act
        packed = None if data is None else orjson.dumps(data).decode()
        self._new += (at, change, subject, actor, packed)

    def selected(self, change: ChangeType, which: str, values: Sequence[Any]) -> None:
        """Add a change for each record that a WHERE clause on `records AS r` selects."""
        self.complete()
        at, actor, _ = self._versions.current_act
        self._connection.execute(
            f"{INSERT_SELECTED}{which} ORDER BY row", (at, change, actor, *values)
        )
        if self._connection.changes():
            self._new_last = self._connection.last_insert_rowid()

    def complete(self) -> None:
        """Insert the buffered rows."""
        if self._new:
            for first in range(0, len(self._new), TOGETHER * WIDTH):
                values = self._new[first : first + TOGETHER * WIDTH]
                self._connection.execute(_insert(len(values) // WIDTH), values)
            self._new.clear()
            self._new_last = self._connection.last_insert_rowid()

    def take_last(self) -> int | None:
        """Return the number of the last change if there are new ones since the last call."""
        last, self._new_last = self._new_last, None
        return last

    @property
    def last(self) -> int:
        """The number of the newest change, 0 for none."""
        return int(self._connection.execute(LAST).get)

    @property
    def oldest(self) -> tuple[int, int] | None:
        """The (number, time in Unix ms) of the oldest change, None for none."""
        found: tuple[int, int] | None = self._connection.execute(OLDEST).fetchone()
        return found

    def after(self, n: int, most: int) -> list[Change]:
        """Return up to `most` changes after number `n`, the oldest first."""
        self.complete()
        return [Change._make(row) for row in self._connection.execute(SELECT, (n, most))]

    def forget(self, guids: Sequence[str], text: str) -> None:
        """Delete the changes of erased records, and those with an erased text in an id or actor.
        Note that records were erased.
        """
        self.complete()
        if not (guids or text):
            return
        at, actor, _ = self._versions.current_act
        # First, so that no number is assigned again. An erased text may name the actor.
        self._new += (at, ERASED, "", "" if text and text in actor else actor, None)
        self.complete()
        self._connection.execute(DELETE_SUBJECTS, (orjson.dumps(guids).decode(),))
        if text:
            self._connection.execute(DELETE_TEXT, (text, orjson.dumps(text).decode()[1:-1]))

    def delete_before(self, before_ms: int) -> int:
        """Delete some changes from before `before_ms`, the oldest first. Return their number."""
        oldest = self.oldest
        if oldest is None or oldest[1] >= before_ms:
            return 0
        self._connection.execute(DELETE_OLDEST, (oldest[0] + DELETED_TOGETHER, before_ms))
        return self._connection.changes()

    def oldest_ms(self) -> int | None:
        """Return when the next change to delete was made, Unix ms. None if there is none."""
        oldest = self.oldest
        return None if oldest is None or oldest[0] == self.last else oldest[1]


@cache
def _insert(count: int) -> str:
    """Return the statement that inserts so many rows.

    With OR FAIL, SQLite keeps no copy of changed pages to undo the statement alone.
    """
    rows = ", ".join(["(?, ?, ?, ?, ?)"] * count)
    return f"INSERT OR FAIL INTO changes({COLUMNS}) VALUES {rows}"
