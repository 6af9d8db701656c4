"""The ids of the items that an import has read."""

from hashlib import blake2b
from uuid import UUID

from memrelay.memory.transfer.importers.scratch import ScratchTable

SELECT = "SELECT digest FROM seen WHERE guid = ?"
INSERT = "INSERT INTO seen VALUES (?, ?)"


class SeenItems(ScratchTable):
    """Finds items whose id the file has twice. Use it as a context."""

    create = "CREATE TABLE seen(guid BLOB PRIMARY KEY, digest BLOB NOT NULL) WITHOUT ROWID, STRICT"

    def add(self, guid: str, line: str) -> bool | None:
        """Remember an item. Return None if its id is new, else whether the lines are equal."""
        key, digest = UUID(guid).bytes, blake2b(line.encode(), digest_size=8).digest()
        known = self._connection.execute(SELECT, (key,)).get
        if known is None:
            self._connection.execute(INSERT, (key, digest))
            return None
        return bool(known == digest)
