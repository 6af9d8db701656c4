"""Pages: the one way to cut a list to a number of items and to the bytes of an answer."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Generic, TypeVar

import orjson
from pydantic import Field

from memrelay.memory.errors import Refused, ResultTooLarge
from memrelay.memory.records.data import LARGEST

Item = TypeVar("Item")
# Items of a page.
MOST = 1000
Limit = Annotated[int, Field(ge=1, le=MOST)]
Offset = Annotated[int, Field(ge=0, le=LARGEST)]
Cursor = Annotated[str, Field(max_length=19)]
# Bytes of a character in JSON: \u0000.
MOST_ESCAPED = 6
# Minimum size of a record's keys, guid and times in JSON.
RECORD_BYTES = 200


def json_size(item: Any) -> int:
    """Return the bytes of an item as JSON."""
    return len(orjson.dumps(item))


class ByteBudget(Generic[Item]):
    """Counts the bytes of items, of which all together may have `most`.

    `bound` is a cheap upper bound of `size`. While it fits, sizes are not computed.
    """

    def __init__(
        self, most: int, size: Callable[[Item], int], bound: Callable[[Item], int] | None = None
    ) -> None:
        self._most, self._size, self._bound = most, size, bound or size
        self._exact = self._at_most = 0
        # Items of which only the bound is counted.
        self._unsure: list[Item] = []

    def fits(self, item: Item) -> bool:
        """Count an item, and return whether all counted items fit."""
        self._unsure.append(item)
        self._at_most += self._bound(item)
        if self._exact + self._at_most <= self._most:
            return True
        self._exact += sum(map(self._size, self._unsure))
        self._at_most = 0
        self._unsure.clear()
        return self._exact <= self._most


def take_within(
    items: Iterable[Item], budget: ByteBudget[Item], limit: int | None = None
) -> tuple[list[Item], bool]:
    """Return (the first items that fit and at most `limit`, whether there are more).

    The first item is returned in any case.
    """
    taken: list[Item] = []
    for item in items:
        if len(taken) == limit or (not budget.fits(item) and taken):
            return taken, True
        taken.append(item)
    return taken, False


def take_page(items: Iterable[Item], limit: int, most: int) -> tuple[list[Item], bool]:
    """Return (the items of a page, whether there are more).

    A page has at most `limit` items and `most` bytes of JSON, but at least one item.
    """
    return take_within(items, ByteBudget(most, json_size), limit)


def too_large(max_bytes: int) -> ResultTooLarge:
    """Return the error for a result of more than `max_bytes`."""
    return ResultTooLarge(
        f"the result has more than {max_bytes} bytes, too many for a message: set `limit` in "
        "wf_webhook_args; for a single long record, use an `output_template` with `truncate`"
    )


def answer_too_large(max_bytes: int) -> ResultTooLarge:
    """Return the error for an answer of more than `max_bytes`, whose call has a `limit`."""
    return ResultTooLarge(
        f"the result has more than {max_bytes} bytes, too many for an answer; set a smaller `limit`"
    )


def refuse_too_large(name: str, content: str, data: str | None, max_bytes: int) -> None:
    """Raise ResultTooLarge if a stored object, such as `record GUID`, does not fit into an answer.

    It is too large for every page.
    """
    size = len(content.encode()) + len(data or "")
    if size > max_bytes:
        raise ResultTooLarge(
            f"{name} has {size} bytes, and an answer has at most {max_bytes}; use "
            "`memrelay export PIPELINE --records` to read it"
        )


def parse_cursor(cursor: str) -> int | None:
    """Return the position in a cursor; None for the first page. Raises Refused."""
    if not cursor:
        return None
    if not (cursor.isascii() and cursor.isdecimal()) or int(cursor) > LARGEST:
        raise Refused("`cursor` is invalid; omit it to start at the first page")
    return int(cursor)
