"""Records of one kind of agent memory whose key is unique within a scope."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from memrelay.memory.engine.conditions import has_expired
from memrelay.memory.engine.feed import EXPIRED
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

    def find(self, scope: str, key: str) -> StoredRecord | None:
        """Return the record with that key, None if there is none or it has expired."""
        found = self._find(scope, key)
        return None if found is None or self._has_expired(found) else found

    def find_to_write(self, scope: str, key: str) -> StoredRecord | None:
        """Return the record with that key before a write, None if the key is free.

        An expired record is removed with its history, because its key is unique.
        """
        found = self._find(scope, key)
        if found is None or not self._has_expired(found):
            return found
        self._records.remove(found, EXPIRED)
        self._records.versions.forget(found.guid)
        return None

    def holder(self, state: State) -> StoredRecord | None:
        """Return the other record that has the key of a record, None if it is free.

        An expired record with the key is removed with its history.
        """
        if state.kind != self.kind or state.key is None:
            return None
        found = self.find_to_write(state.scope, state.key)
        return None if found is None or found.guid == state.guid else found

    def by_guid(self, guid: str) -> StoredRecord | None:
        """Return the record of this kind with that guid, None if there is none."""
        found = self._records.by_guid(guid)
        return found if found is not None and found.whole.kind == self.kind else None

    def insert(self, new: State) -> State:
        """Insert a record whose key is free, and return it as stored."""
        return self._records.insert_whole(new)

    def change(self, place: StoredRecord, after: State) -> State:
        """Change a record, keep the earlier version, and return it as stored."""
        updated_at = next_change_ms(self._records.versions.now_ms, place.whole.updated_at)
        return self._records.overwrite(place, after._replace(updated_at=updated_at))

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

    def _find(self, scope: str, key: str) -> StoredRecord | None:
        self._records.flush()
        return next(stored_records(self._connection, self._at_key, [scope, key]), None)

    def _has_expired(self, place: StoredRecord) -> bool:
        return has_expired(place.whole.expires_at, self._records.versions.now_ms)


def new_state(guid: str, kind: str, now_ms: int, actor: str) -> State:
    """Return a new record of agent memory without scope, key, owner, data and content."""
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
        crc=None,
        content="",
    )
