"""Counts failed deliveries in the file of a store, also while no worker runs."""

from contextlib import closing
from pathlib import Path

import apsw

from memrelay.memory.engine.memory_id import built_in_store, store_path
from memrelay.memory.models.endpoints import ENDPOINTS_STORE
from memrelay.memory.models.endpoints.table import FAILED

READ_ONLY = apsw.SQLITE_OPEN_READONLY
BUSY_MS = 2000
COUNT = "SELECT endpoint, count(*) FROM deliveries WHERE state = ? GROUP BY endpoint ORDER BY 1"


def count_failed(root: Path, uid: str) -> dict[str, int]:
    """Return the number of failed deliveries of a pipeline by the ids of its endpoints.

    It is empty if the pipeline has no endpoints on this host, or if their store cannot be read.
    """
    file = store_path(root, built_in_store(uid, ENDPOINTS_STORE))
    if not file.exists():
        return {}
    try:
        with closing(apsw.Connection(str(file), flags=READ_ONLY)) as connection:
            connection.set_busy_timeout(BUSY_MS)
            return dict(connection.execute(COUNT, (FAILED,)))
    except apsw.Error:
        return {}
