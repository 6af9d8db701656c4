"""Days and months in a question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.text.dates import read_times


@pytest.mark.parametrize(
    ("question", "patterns"),
    [
        ("What did Ann do on 7 May 2023?", ["2023-05-07"]),
        ("on the 7th of May", ["____-05-07"]),
        ("May 7, 2023", ["2023-05-07"]),
        ("December 31st was cold", ["____-12-31"]),
        ("since 2023-05-07", ["2023-05-07"]),
        ("in 2023-05", ["2023-05-__"]),
        ("during June, 2022", ["2022-06-__"]),
        ("in AUGUST", ["____-08-__"]),
        ("Sept. 3", ["____-09-03"]),
        ("from 3 June to 5 July 2023", ["____-06-03", "2023-07-05"]),
        ("29 February", ["____-02-29"]),
        ("30 February 2023", ["2023-02-__"]),
    ],
)
def test_days_and_months_are_recognized(question: str, patterns: list[str]) -> None:
    assert list(read_times(question).patterns) == patterns


@pytest.mark.parametrize(
    "question",
    ["", "may I march?", "a dec of cards", "2023-13-01", "in 2023", "juneau", "99 bottles"],
)
def test_a_question_without_a_date_has_no_pattern(question: str) -> None:
    assert list(read_times(question).patterns) == []


@given(st.text() | st.from_regex(r"([0-9]{1,4}[ ./-]?(may|June|dec)?,? ?){1,4}"))
def test_any_text_is_accepted(question: str) -> None:
    assert all(len(pattern) == 10 for pattern in read_times(question).patterns)
