"""Times in answers: formatting and parsing lose no millisecond."""

from hypothesis import example, given
from hypothesis import strategies as st

from memrelay.memory.engine.timestamps import LAST_MS, format_time, parse_ms


@given(st.integers(0, LAST_MS))
@example(LAST_MS)
@example(8_600_000_000_001)
def test_a_time_survives_formatting_and_parsing_to_the_millisecond(unix_ms: int) -> None:
    assert parse_ms(format_time(unix_ms)) == unix_ms


def test_a_time_is_formatted_in_utc_with_milliseconds() -> None:
    assert format_time(0) == "1970-01-01T00:00:00.000Z"
    assert format_time(LAST_MS) == "9999-12-31T23:59:59.999Z"
