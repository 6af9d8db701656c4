"""Lists records for the blocks, by exact kind, scope and source, oldest first. Never cut
silently."""

from collections.abc import Iterable
from typing import Literal, TypeVar

import orjson
from msgspec import Struct

from memrelay.memory.errors import ResultTooLarge
from memrelay.memory.records.record import Further, Record
from memrelay.memory.sqlite.filters import Conditions, Given
from memrelay.memory.sqlite.store import Transaction

MOST_ESCAPED = 6  # bytes of a character as JSON: \u0000
RECORD_BYTES = 200  # what a record's keys, guid and times take as JSON, at least
Item = TypeVar("Item")


def size_of(record: Record, data: str | None) -> int:
    """How many bytes a record takes at least. A source may be long too: a turn's is what its
    speaker is called."""
    return (
        len(record.content) + len(record.source) + len(record.tags) + len(data or "") + RECORD_BYTES
    )


class Room:
    """How much of an answer is taken as JSON: at its worst as long as that fits, since it is
    quickly told, then as it is."""

    def __init__(self, most: int) -> None:
        """`most` are the bytes that there are."""
        self._most, self._taken, self._worst = most, 0, 0
        self._unsure: list[tuple[Record, Further]] = []

    def is_short_of(self, record: Record, further: Further) -> bool:
        """Whether there is too little with this one."""
        self._unsure.append((record, further))
        names = (
            len(record.scope)
            + len(record.kind)
            + sum(map(len, filter(None, (further.key, further.owner, further.thread))))
        )
        self._worst += MOST_ESCAPED * (size_of(record, further.data) + names)
        if self._taken + self._worst <= self._most:
            return False
        self._taken += sum(_json_size(*one) for one in self._unsure)
        self._worst = 0
        self._unsure.clear()
        return self._taken > self._most


def _json_size(record: Record, further: Further) -> int:
    names = (record.scope, record.kind, record.source, further.key, further.owner, further.thread)
    told = len(orjson.dumps((record.content, *names))) + len(record.tags.encode())
    return told + len((further.data or "").encode()) + RECORD_BYTES


class ReadInput(Struct, frozen=True):
    """Which records; `limit` None is all of them. A result of more than `max_bytes` is refused. A
    struct, as WriteInput is."""

    max_bytes: int
    filters: dict[str, str] = {}  # of kind, scope, source
    order: Literal["asc", "desc"] = "asc"
    limit: int | None = None
    offset: int = 0
    given: Given | None = None  # a filter, compiled


def read(tx: Transaction, wanted: ReadInput) -> list[Record]:
    """The records in order of arrival. Raises ResultTooLarge."""
    return within(
        wanted.max_bytes,
        tx.records.select(
            Conditions(wanted.filters, given=wanted.given),
            wanted.order,
            wanted.limit,
            wanted.offset,
        ),
    )


def within(max_bytes: int, records: Iterable[Record]) -> list[Record]:
    """All of `records`, or ResultTooLarge as soon as their text alone exceeds `max_bytes`."""
    size, taken = 0, []
    for record in records:
        taken.append(record)
        size += len(record.content) + RECORD_BYTES
        if size > max_bytes:
            raise too_large(max_bytes)
    return taken


def fitting_page(told: Iterable[Item], limit: int, most: int) -> tuple[list[Item], bool]:
    """(what a page has of them, whether there are more): at most `limit`, and `most` bytes as JSON,
    but one in any case."""
    items: list[Item] = []
    size = 0
    for one in told:
        size += len(orjson.dumps(one))
        if len(items) == limit or (items and size > most):
            return items, True
        items.append(one)
    return items, False


def most_within(max_bytes: int) -> int:
    """As many records as `within` would ever look at."""
    return max_bytes // RECORD_BYTES + 1


def too_large(max_bytes: int) -> ResultTooLarge:
    """The refusal, with its remedy."""
    return ResultTooLarge(
        f"the result has more than {max_bytes} bytes, too many for a message: set `limit` in "
        "wf_webhook_args, or where one record is that long an `output_template` with `truncate`"
    )
