"""The state that a call with `as_of` has read."""

import re
from contextvars import ContextVar
from typing import NamedTuple

FORM = re.compile(r"n:(\d{1,18}); at=(\S{1,40}); incomplete=(\d{1,18})", re.ASCII)


class ReadState(NamedTuple):
    """The state of a store at a past time, as a call with `as_of` has read it."""

    # The number of the last change in it: `as_of=f"n:{change}"` reads the same state again.
    change: int
    # When it was committed, RFC 3339.
    at: str
    # The number of records whose state then is no longer kept. The answer lacks them.
    incomplete: int


# Of the task or thread that called.
LAST_READ: ContextVar[ReadState | None] = ContextVar("memrelay_last_read", default=None)


def parse_read_state(header: str) -> ReadState | None:
    """Return the state in a response header, None if the header has another form."""
    found = FORM.fullmatch(header)
    return None if found is None else ReadState(int(found[1]), found[2], int(found[3]))


class ReadsPast:
    """The part of a client or an embedded store that says which state was read."""

    @property
    def last_read(self) -> ReadState | None:
        """Return the state that the last call with `as_of` of this task or thread has read. None
        before the first such call.
        """
        return LAST_READ.get()
