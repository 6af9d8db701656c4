"""Dead letters by their reasons: of a flood one sees what it was of, and how many there are."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from cli.output import print_line
from cli.readable import moment, table
from memory.dead_letters import Listed
from memory.times import as_time

NUMBERED = re.compile(
    r"[\w-]*\d[\w-]*"
)  # numbers, guids, ids of messages: in which reasons of one sort differ


class Gathered(NamedTuple):
    """Those of one pipeline and one sort of reason."""

    pipeline: str
    error: str  # the first one's
    letters: int
    first: str  # its id
    last: str
    first_at: int  # when they were given up, Unix ms: the earliest and the latest
    last_at: int

    def as_item(self) -> dict[str, Any]:
        """In JSON."""
        return {
            "pipeline_uid": self.pipeline,
            "letters": self.letters,
            "error": self.error,
            "first_id": self.first,
            "last_id": self.last,
            "first_buried_at": as_time(self.first_at),
            "last_buried_at": as_time(self.last_at),
        }


def gathered(letters: Iterable[Listed]) -> list[Gathered]:
    """Most letters first."""
    found: dict[tuple[str, str], Gathered] = {}
    for one in letters:
        sort = one.pipeline, NUMBERED.sub("", one.error)
        was = found.get(sort) or Gathered(
            one.pipeline, one.error, 0, one.id, one.id, one.buried_at, one.buried_at
        )
        found[sort] = was._replace(
            letters=was.letters + 1,
            last=one.id,
            first_at=min(was.first_at, one.buried_at),
            last_at=max(was.last_at, one.buried_at),
        )
    return sorted(found.values(), key=lambda one: -one.letters)


def print_gathered(found: list[Gathered]) -> None:
    """A table."""
    if not found:
        print_line("There are no dead letters.")
        return
    rows = [
        (
            one.pipeline,
            str(one.letters),
            moment(one.first_at),
            moment(one.last_at),
            one.error.split("\n")[0][:100],
        )
        for one in found
    ]
    for line in table([("PIPELINE", "LETTERS", "FIRST", "LAST", "REASON"), *rows]):
        print_line(line)
