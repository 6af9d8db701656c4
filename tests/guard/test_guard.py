"""The guard: one batch of messages costs exactly as much as the file of counts has."""

import sys
from copy import deepcopy

import pytest

from tests.guard.counts import (
    COLUMNS,
    EVERY_PYTHON,
    PYTHON,
    UPDATE,
    find_differences,
    find_unlocked,
    lacks_reason,
    read_counts,
    update_counts,
)
from tests.guard.measure import Costs, measure
from tests.guard.planted import PLANTED_BLOCK

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or sys.implementation.name != "cpython",
    reason="the counts hold for CPython on Linux",
)


@pytest.fixture(scope="module", autouse=True)
def locked() -> None:
    if unlocked := find_unlocked():
        pytest.skip(f"the counts hold for the locked packages; others: {', '.join(unlocked)}")


@pytest.fixture(scope="module")
def costs() -> Costs:
    return measure()


def test_a_batch_takes_the_counted_statements_syncs_and_commands(costs: Costs) -> None:
    _assert_as_counted(costs, EVERY_PYTHON)


def test_a_batch_takes_the_counted_python_calls_and_blocks(costs: Costs) -> None:
    if PYTHON not in read_counts():
        pytest.skip(f"the file has no counts of Python {PYTHON}; {UPDATE} adds them")
    _assert_as_counted(costs, PYTHON)


def test_each_raised_count_has_a_reason() -> None:
    assert not [
        name for rows in read_counts().values() for name, row in rows.items() if lacks_reason(row)
    ]


def test_one_more_call_and_statement_per_message_are_found() -> None:
    planted = measure((1, 16), PLANTED_BLOCK)
    lines = list(find_differences(read_counts(), {"write 16": planted["write 16"]}, EVERY_PYTHON))
    assert len(lines) == 1
    assert lines[0].startswith("higher: sql SELECT of write 16")
    assert lines[0].endswith("(+1.00 per message)")
    if PYTHON in read_counts():
        lines = list(find_differences(read_counts(), {"write 16": planted["write 16"]}, PYTHON))
        assert any(
            line.startswith("higher: calls memrelay.blocks of write 16")
            and line.endswith("(+1.00 per message)")
            for line in lines
        )


def test_a_lower_count_is_found_and_needs_no_reason(costs: Costs) -> None:
    counts, lower = read_counts(), deepcopy(costs)
    lower["search 256"]["syncs"] -= 1
    assert any(
        line.startswith("lower: syncs of search 256 is 0 instead of 1")
        for line in find_differences(counts, lower, EVERY_PYTHON)
    )
    assert "syncs" not in update_counts(counts, lower)
    assert counts[EVERY_PYTHON]["syncs"].now[COLUMNS.index("search 256")] == 0


def test_a_count_that_is_raised_again_needs_a_new_reason(costs: Costs) -> None:
    counts, higher = read_counts(), deepcopy(costs)
    counts[EVERY_PYTHON]["syncs"].reason = "of an earlier change"
    higher["write 1"]["syncs"] += 1
    assert "syncs" in update_counts(counts, higher)


def _assert_as_counted(costs: Costs, section: str) -> None:
    differences = list(find_differences(read_counts(), costs, section))
    assert not differences, "\n".join(
        [
            *differences,
            f"If this is intended, run {UPDATE}. It asks for the reason of each higher count.",
        ]
    )
