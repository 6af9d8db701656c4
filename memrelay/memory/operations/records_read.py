"""Reads records for the blocks, by kind, scope and source, and limits the size of results.

A result that is too large is an error. It is never truncated silently.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeVar

import orjson
from msgspec import Struct

from memrelay.memory.errors import ResultTooLarge
from memrelay.memory.records.record import Further, Record
from memrelay.memory.sqlite.filters import Conditions, Given
from memrelay.memory.sqlite.store import Transaction

MOST_ESCAPED = 6  # bytes of a character in JSON: \u0000
RECORD_BYTES = 200  # minimum size of a record's keys, guid and times in JSON
Item = TypeVar("Item")


def size_of(record: Record, data: str | None) -> int:
    """Return the minimum size of a record in bytes. A turn's source can be long too."""
    return (
        len(record.content) + len(record.source) + len(record.tags) + len(data or "") + RECORD_BYTES
    )


class AnswerSize:
    """Tracks the JSON size of an answer of at most `most` bytes.

    While a cheap upper bound fits, the exact size is not computed.
    """

    def __init__(self, most: int) -> None:
        self._most, self._taken, self._worst = most, 0, 0
        self._unsure: list[tuple[Record, Further]] = []

    def would_exceed(self, record: Record, further: Further) -> bool:
        """Return whether the answer would be too large with this record."""
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
    texts = len(orjson.dumps((record.content, *names))) + len(record.tags.encode())
    return texts + len((further.data or "").encode()) + RECORD_BYTES


class ReadInput(Struct, frozen=True):
    """The records to read; `limit` None means all. A struct for speed, like WriteInput.

    A result of more than `max_bytes` raises an error.
    """

    max_bytes: int
    filters: dict[str, str] = {}  # by kind, scope, source
    order: Literal["asc", "desc"] = "asc"
    limit: int | None = None
    offset: int = 0
    given: Given | None = None  # a compiled filter


def read(tx: Transaction, wanted: ReadInput) -> list[Record]:
    """Return the records in order of creation, without the memory of agents.

    Raises ResultTooLarge.
    """
    return collect_within(
        wanted.max_bytes,
        tx.records.select(
            Conditions(
                wanted.filters, given=wanted.given, without_agents=tx.records.has_agent_memory
            ),
            wanted.order,
            wanted.limit,
            wanted.offset,
        ),
    )


def collect_within(max_bytes: int, records: Iterable[Record]) -> list[Record]:
    """Return all records. Raises ResultTooLarge once their text exceeds `max_bytes`."""
    size, taken = 0, []
    for record in records:
        taken.append(record)
        size += len(record.content) + RECORD_BYTES
        if size > max_bytes:
            raise too_large(max_bytes)
    return taken


class Found(NamedTuple):
    """The best records of a search, and how many more there are."""

    records: list[Record]
    left_out: int = 0


def take_within(max_bytes: int, records: Iterable[Record]) -> tuple[list[Record], bool]:
    """Return (the first records whose text fits into `max_bytes`, whether there are more).

    The first record is returned in any case.
    """
    size, taken = 0, list[Record]()
    for record in records:
        size += len(record.content) + RECORD_BYTES
        if taken and size > max_bytes:
            return taken, True
        taken.append(record)
    return taken, False


def take_page(found: Iterable[Item], limit: int, most: int) -> tuple[list[Item], bool]:
    """Return (the items of a page, whether there are more).

    A page has at most `limit` items and `most` bytes of JSON, but at least one item.
    """
    items: list[Item] = []
    size = 0
    for one in found:
        size += len(orjson.dumps(one))
        if len(items) == limit or (items and size > most):
            return items, True
        items.append(one)
    return items, False


def max_records_within(max_bytes: int) -> int:
    """Return the maximum number of records that `collect_within` would accept."""
    return max_bytes // RECORD_BYTES + 1


def too_large(max_bytes: int) -> ResultTooLarge:
    """Return the error for a result of more than `max_bytes`."""
    return ResultTooLarge(
        f"the result has more than {max_bytes} bytes, too many for a message: set `limit` in "
        "wf_webhook_args; for a single long record, use an `output_template` with `truncate`"
    )
