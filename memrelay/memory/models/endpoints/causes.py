"""The causes of changes: hops and trace context of the input that made them.

Deliveries continue both. Most inputs have neither, so most changes have no row here.
"""

from typing import TYPE_CHECKING, NamedTuple

from memrelay.memory.engine.features import Feature
from memrelay.memory.engine.feed import ChangeFeed

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

# The hops and the trace of an input are noted one after the other.
NOTE = (
    "INSERT INTO change_causes(first, last, hop, traceparent) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (first) DO UPDATE SET hop = max(hop, excluded.hop), "
    "traceparent = max(traceparent, excluded.traceparent)"
)
FIND = (
    "SELECT last, hop, traceparent FROM change_causes WHERE first <= ? ORDER BY first DESC LIMIT 1"
)
DELETE = "DELETE FROM change_causes WHERE first < ?1 AND last < ?1"


class Cause(NamedTuple):
    """How many messages led to a change, and the trace context of its input, "" for none."""

    hop: int = 0
    traceparent: str = ""


NO_CAUSE = Cause()


class ChangeCauses(Feature):
    """Notes and finds causes. It has no hooks, so other inputs do not pay for it."""

    def __init__(self, store: "Store") -> None:
        super().__init__(store)
        self._feed = store.table(ChangeFeed)

    def note(self, after: int, cause: tuple[int, str]) -> None:
        """Note the cause, as in Cause, of all changes after number `after`."""
        self._feed.complete()
        last = self._feed.last
        if last > after:
            self._connection.execute(NOTE, (after + 1, last, *cause))
            oldest = self._feed.oldest
            self._connection.execute(DELETE, (oldest[0] if oldest else 0,))

    def find(self, change: int) -> Cause:
        """Return the cause of the change with this number."""
        found = self._connection.execute(FIND, (change,)).fetchone()
        return Cause(*found[1:]) if found is not None and found[0] >= change else NO_CAUSE
