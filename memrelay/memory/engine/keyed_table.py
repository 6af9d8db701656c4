"""Records of one kind whose key is unique, by default within a scope."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from memrelay.memory.engine.feed import EXPIRED
from memrelay.memory.engine.filter_sql import has_expired
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.engine.timestamps import next_change_ms
from memrelay.memory.engine.versions import State, StoredRecord, stored_records

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store


class KeyedTable(StoreTable):
    """Finds and writes records of a kind inside the store's open transaction.

    `index` is the unique index of the kind, which the SQL names literally.
    """

    def __init__(self, store: "Store", kind: str, index: str) -> None:
        super().__init__(store)
        self.kind = kind
        self._at_key = f" INDEXED BY {index} WHERE r.kind = '{kind}' AND r.scope = ? AND r.key = ?"

    def find(self, *key: str) -> StoredRecord | None:
        """Return the record with that scope and key, None if there is none or it has expired."""
        stored = self._find(*key)
        return None if stored is None or self._has_expired(stored) else stored

    def find_to_write(self, *key: str) -> StoredRecord | None:
        """Return the record with that scope and key before a write, None if the key is free.

        An expired record is removed with its history, because its key is unique.
        """
        stored = self._find(*key)
        if stored is None or not self._has_expired(stored):
            return stored
        self._records.remove(stored, EXPIRED)
        self._records.versions.forget(stored.guid)
        return None

    def holder(self, state: State) -> StoredRecord | None:
        """Return the other record that has the key of a record, None if it is free.

        An expired record with the key is removed with its history.
        """
        if state.kind != self.kind or state.key is None:
            return None
        stored = self.find_to_write(*self.key_values(state, state.key))
        return None if stored is None or stored.guid == state.guid else stored

    def key_values(self, state: State, key: str) -> tuple[str, ...]:
        """Return the values that `find` takes for a record with that key."""
        return state.scope, key

    def by_guid(self, guid: str) -> StoredRecord | None:
        """Return the record of this kind with that guid, None if there is none."""
        stored = self._records.by_guid(guid)
        return stored if stored is not None and stored.state.kind == self.kind else None

    def insert(self, new: State) -> State:
        """Insert a record whose key is free, and return it as stored."""
        return self._records.insert_state(new)

    def change(self, stored: StoredRecord, after: State, *, event: str = "") -> State:
        """Change a record, keep the earlier version, and return it as stored.

        `event` is the name of the change, by default "record.updated".
        """
        updated_at = next_change_ms(self._records.versions.now_ms, stored.state.updated_at)
        return self._records.overwrite(stored, after._replace(updated_at=updated_at), event=event)

    def delete(self, guids: Iterable[str]) -> int:
        """Delete the records with these guids, keep their last versions, and return their number.

        Guids of other records are ignored.
        """
        deleted = 0
        for guid in dict.fromkeys(guids):
            if (place := self.by_guid(guid)) is not None:
                self._records.delete(place)
                deleted += 1
        return deleted

    def _find(self, *key: str) -> StoredRecord | None:
        self._records.flush()
        return next(stored_records(self._connection, self._at_key, list(key)), None)

    def _has_expired(self, stored: StoredRecord) -> bool:
        return has_expired(stored.state.expires_at, self._records.versions.now_ms)


def new_state(guid: str, kind: str, now_ms: int, actor: str) -> State:
    """Return a new record without scope, key, owner, data and content."""
    return State(
        guid,
        number=1,
        scope="",
        kind=kind,
        source=actor,
        tags="[]",
        created_at=now_ms,
        updated_at=now_ms,
        key=None,
        owner=None,
        data=None,
        expires_at=None,
        in_context=0,
        encrypted=0,
        thread=None,
        seq=None,
        valid_from=None,
        valid_to=None,
        born=0,
        origin=0,
        crc=None,
        content="",
    )
