"""Which records of a store have had their time: no read tells them from then on, and the owner
deletes them by and by."""

from typing import Any

import apsw

from memrelay.memory.sqlite.filters import Conditions

UNEXPIRED = "(r.expires_at IS NULL OR r.expires_at > ?)"
NEXT = "SELECT expires_at FROM records WHERE expires_at IS NOT NULL ORDER BY expires_at LIMIT 1"


class Expiry:
    """Of the table of records, where nothing may wait. While none of them ever expires no read pays
    for it."""

    def __init__(self, connection: apsw.Connection) -> None:
        """As it was committed last, once it is reset."""
        self._connection = connection
        self.concerns = False  # whether there are records that expire

    def reset(self) -> None:
        """As the table has it."""
        self.concerns = self.next_ms() is not None

    def clauses(self, conditions: Conditions, now_ms: int) -> tuple[list[str], list[Any]]:
        """Those of the conditions, and that a record's time has not come."""
        clauses, values = conditions.clauses()
        return ([*clauses, UNEXPIRED], [*values, now_ms]) if self.concerns else (clauses, values)

    def rows(self, now_ms: int) -> list[int]:
        """Of the records whose time has come, and that are not deleted yet."""
        if not self.concerns:
            return []
        return [
            row
            for (row,) in self._connection.execute(
                "SELECT row FROM records WHERE expires_at <= ?", (now_ms,)
            )
        ]

    def next_ms(self) -> int | None:
        """When the next record expires, Unix ms."""
        found: int | None = self._connection.execute(NEXT).get
        return found


def has_expired(expires_at: int | None, now_ms: int) -> bool:
    """Whether a record that expires at that moment, Unix ms, is gone."""
    return expires_at is not None and expires_at <= now_ms
