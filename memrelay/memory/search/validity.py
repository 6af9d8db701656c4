"""Searches put records that are not valid at a time after all others, and hide none of them."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
# Multiplies the score of a record that is not valid. A power of two, so that dividing is exact.
LOWERED = 2.0**-20
VALIDITY_FACTOR = "validity"


def valid_first(
    items: Iterable[Item], is_lowered: Callable[[Item], bool], limit: int | None
) -> Iterator[Item]:
    """Return up to `limit` items, those that are not lowered first, else in their order.

    Reads no more than needed.
    """
    return islice(_lowered_last(items, is_lowered), limit)


def _lowered_last(items: Iterable[Item], is_lowered: Callable[[Item], bool]) -> Iterator[Item]:
    lowered = list[Item]()
    for item in items:
        if is_lowered(item):
            lowered.append(item)
        else:
            yield item
    yield from lowered
