"""The times of other systems."""

from math import inf, nan

import pytest

from memrelay.memory.transfer.importers.source import LeftOut, read_time

NEW_YEAR_MS = 1_767_225_600_000


@pytest.mark.parametrize(
    "given",
    [
        "2026-01-01T00:00:00Z",
        "2026-01-01 00:00:00",
        "2026-01-01T01:00:00.000+01",
        NEW_YEAR_MS // 1000,
        float(NEW_YEAR_MS),
        str(NEW_YEAR_MS),
    ],
)
def test_the_forms_of_a_time_are_read(given: object) -> None:
    assert read_time(given) == NEW_YEAR_MS


@pytest.mark.parametrize("given", ["yesterday", True, [1], nan, inf, -inf, "2026-13-01"])
def test_an_unknown_form_is_refused(given: object) -> None:
    with pytest.raises(LeftOut, match="has an unknown form"):
        read_time(given)


@pytest.mark.parametrize("given", [-1, 1e308, 10**400, "0001-01-01T00:00:00Z"])
def test_a_time_outside_the_years_is_refused(given: object) -> None:
    with pytest.raises(LeftOut, match="is not between the years 1970 and 9999"):
        read_time(given)
