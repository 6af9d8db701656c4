"""Pages: the longest beginning of a list that fits into a number of bytes and of items."""

from itertools import accumulate, takewhile

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.errors import ResultTooLarge
from memrelay.memory.records.paging import ByteBudget, refuse_too_large, take_page, take_within

SIZES = st.lists(st.integers(0, 50), max_size=12)


@given(SIZES, st.integers(-10, 200), st.integers(0, 30), st.integers(1, 12))
def test_a_page_is_the_longest_beginning_that_fits(
    sizes: list[int], most: int, slack: int, limit: int
) -> None:
    fitting = len(list(takewhile(lambda total: total <= most, accumulate(sizes))))
    expected = sizes[: min(max(fitting, 1), limit)]

    for bound in (None, lambda size: size + slack):
        budget = ByteBudget(most, int, bound)
        taken, has_more = take_within(sizes, budget, limit)
        assert taken == expected
        assert has_more == (len(taken) < len(sizes))


def test_sizes_are_not_computed_while_their_bounds_fit() -> None:
    measured: list[str] = []

    def measure(text: str) -> int:
        measured.append(text)
        return len(text)

    budget = ByteBudget(10, measure, lambda text: 2 * len(text))
    assert budget.fits("abcde") and measured == []
    assert budget.fits("fgh") and measured == ["abcde", "fgh"]
    assert not budget.fits("ijk")


def test_a_page_counts_the_bytes_of_json() -> None:
    items = [{"text": "ä" * 10}] * 3
    size = len(orjson.dumps(items[0]))
    assert take_page(items, 10, 2 * size) == (items[:2], True)
    assert take_page(items, 10, 3 * size) == (items, False)
    assert take_page(items, 1, 3 * size) == (items[:1], True)
    assert take_page(items, 10, 1) == (items[:1], True)


def test_an_object_that_fits_no_page_is_refused() -> None:
    refuse_too_large("record r", "ab", None, 2)
    with pytest.raises(ResultTooLarge, match="record r has 5 bytes, and an answer has at most 4"):
        refuse_too_large("record r", "ä", "{}\n", 4)
