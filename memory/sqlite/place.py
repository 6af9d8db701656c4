"""Where a record is, and all that is known of it: what a change of it must know."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import apsw

from memory.sqlite.versions import STATE, State

PLACE = f"SELECT row, content, parts, {STATE} FROM records AS r"


class Place(NamedTuple):
    """One record."""

    row: int
    content: str
    parts: str | None  # that are indexed of it beside itself
    state: tuple[Any, ...]  # in the order of STATE

    @property
    def guid(self) -> str:
        """The record's."""
        return str(self.state[0])

    @property
    def whole(self) -> State:
        """With names for all of it."""
        return State._make((*self.state, self.content))


def places(connection: apsw.Connection, which: str, values: list[Any]) -> Iterator[Place]:
    """Those that `which`, what follows FROM, picks of the table of records as `r`."""
    return (
        Place(row[0], row[1], row[2], row[3:]) for row in connection.execute(PLACE + which, values)
    )
