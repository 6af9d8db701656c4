"""Makes deliveries of the changes of a period that never were any, as `endpoints.recover` asks for.

The change feed has them, if it was on and has not deleted them yet. It runs in steps, in the
database thread.
"""

from collections.abc import Sequence

from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.models.endpoints.outbox import (
    CHANGES_TOGETHER,
    FIRST_AT,
    MOST_WAITING,
    make_rows,
)
from memrelay.memory.models.endpoints.table import WAITING, EndpointTable, Recovery


def recover(stores: OpenStores, name: str, sources: Sequence[str]) -> bool:
    """Look at the next changes of a recovery. Return whether there are more, or other recoveries.

    `name` is the store of the endpoints, `sources` are the stores of the pipeline. Deliveries that
    exist are left as they are. While too many wait, nothing is added.

    Raises StoreBusy, StoreBroken and StoreFenced.
    """
    table = stores.get(name).table(EndpointTable)
    recovery = table.find_recovery()
    if recovery is None:
        return False
    endpoint = table.find(recovery.endpoint)
    source = _find_source(stores, name, sources, recovery)
    if endpoint is None or source is None:
        with stores.get(name).transaction():
            table.end_recovery(recovery)
        return True
    if table.counts(endpoint.id)[WAITING] > MOST_WAITING - CHANGES_TOGETHER:
        return False
    store = stores.get(source)
    after = recovery.n if source == recovery.store else _find_start(store, recovery.since)
    changes = store.feed.after(after, CHANGES_TOGETHER)
    wanted = [one for one in changes if recovery.since <= one.at < recovery.until]
    # As if the endpoint had existed then.
    rows = list(make_rows(store, wanted, [endpoint._replace(created_at=0)]))
    has_more = len(changes) == CHANGES_TOGETHER and changes[-1].at < recovery.until
    with stores.get(name).transaction():
        table.add(rows)
        table.note_recovery(recovery, source, changes[-1].n if has_more else -1)
    return True


def _find_source(
    stores: OpenStores, name: str, sources: Sequence[str], recovery: Recovery
) -> str | None:
    """Return the store whose changes are next, None after the last one."""
    return next(
        (
            source
            for source in sorted(sources)
            if (source > recovery.store or (source == recovery.store and recovery.n >= 0))
            and source != name
            and stores.exists(source)
        ),
        None,
    )


def _find_start(store: Store, since_ms: int) -> int:
    """Return the number of the change before the first one of a period."""
    first: int = store.connection.execute(FIRST_AT, (since_ms,)).get
    return first - 1 if first else store.feed.last
