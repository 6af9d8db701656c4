"""The ids of the items that an import has read, on disk: a file may have millions of them."""

from hashlib import blake2b
from types import TracebackType
from typing import Self
from uuid import UUID

import apsw

SELECT = "SELECT digest FROM seen WHERE guid = ?"
INSERT = "INSERT INTO seen VALUES (?, ?)"


class SeenItems:
    """Finds items whose id the file has twice. Use it as a context."""

    def __enter__(self) -> Self:
        """Create a temporary database, which SQLite deletes when it is closed."""
        self._connection = apsw.Connection("")
        self._connection.execute(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-4000;"
            "CREATE TABLE seen(guid BLOB PRIMARY KEY, digest BLOB NOT NULL) WITHOUT ROWID, STRICT;"
            "BEGIN"
        ).fetchall()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def add(self, guid: str, line: str) -> bool | None:
        """Remember an item. Return None if its id is new, else whether the lines are equal."""
        key, digest = UUID(guid).bytes, blake2b(line.encode(), digest_size=8).digest()
        known = self._connection.execute(SELECT, (key,)).get
        if known is None:
            self._connection.execute(INSERT, (key, digest))
            return None
        return bool(known == digest)
