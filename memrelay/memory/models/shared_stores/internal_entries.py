"""List the internal entries of a copied store, for `memrelay reseal`."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from memrelay.memory.engine.connection import open_store_file, translate_errors
from memrelay.memory.models.shared_stores.item import format_version

SELECT = (
    "SELECT scope, owner, key, data, updated_at, crc FROM records "
    "WHERE kind = 'store.item' AND in_context = 0 AND encrypted = 0 "
    "AND ifnull(expires_at > ?, 1) ORDER BY row"
)


class InternalEntry(NamedTuple):
    """An internal entry and its value as stored."""

    store: str
    owner: str
    namespace: str
    key: str
    value: Any
    version: str


def list_internal_entries(path: Path, now_ms: int) -> Iterator[InternalEntry]:
    """Yield the unexpired internal entries in a copy that no other program uses.

    Entries that the client encrypted are left out.
    """
    with translate_errors(str(path)), closing(open_store_file(path)) as connection:
        for store, owner, key, data, updated_at, crc in connection.execute(SELECT, (now_ms,)):
            stored = orjson.loads(data or "{}")
            version = format_version(updated_at, crc)
            namespace, value = stored.get("namespace", ""), stored.get("value")
            yield InternalEntry(store, owner, namespace, key, value, version)
