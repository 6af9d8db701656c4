"""Days and months in a question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.search.text.dates import date_phrases, read_times


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
    [
        "",
        "may I march?",
        "a dec of cards",
        "2023-13-01",
        "for 2023",
        "last march",
        "yesterday",
        "juneau",
        "99 bottles",
    ],
)
def test_a_question_without_a_date_has_no_pattern(question: str) -> None:
    assert list(read_times(question).patterns) == []


NOW = 1_795_694_400_000  # Thursday, 26 November 2026, 12:00


@pytest.mark.parametrize(
    ("question", "patterns"),
    [
        ("what did I do yesterday?", ["2026-11-25"]),
        ("the day before yesterday", ["2026-11-24"]),
        ("what is on today", ["2026-11-26"]),
        ("last March", ["2026-03-__"]),
        ("last November", ["2025-11-__"]),
        ("last May", ["2026-05-__"]),
        ("last Monday", ["2026-11-23"]),
        ("on Thursday", ["2026-11-19"]),
        ("3 days ago", ["2026-11-22", "2026-11-23", "2026-11-24"]),
        ("two days ago", ["2026-11-24"]),
        ("this week", ["2026-11-23", "2026-11-24", "2026-11-25", "2026-11-26"]),
        ("last week", [f"2026-11-{day}" for day in range(16, 23)]),
        ("two weeks ago", [f"2026-11-{day:02}" for day in range(9, 16)]),
        ("last month", ["2026-10-__"]),
        ("eleven months ago", ["2025-12-__"]),
        ("22 months ago", ["2025-01-__"]),
        ("last year", ["2025-__-__"]),
        ("in 2023", ["2023-__-__"]),
        ("yesterday and on 7 May 2023", ["2026-11-25", "2023-05-07"]),
        ("900 years ago", ["1126-__-__"]),
        ("this may work", []),
        ("the last one", []),
    ],
)
def test_times_relative_to_now_are_recognized(question: str, patterns: list[str]) -> None:
    assert list(read_times(question, NOW).patterns) == patterns


def test_words_that_only_ask_for_a_time_are_left_out() -> None:
    assert read_times("what happened last week", NOW).relative_words == {
        "happened",
        "last",
        "week",
    }
    assert read_times("which tea did I drink last week", NOW).relative_words == {"last", "week"}
    assert read_times("tea in May 2023", NOW).relative_words == frozenset()


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("2026-03-12", "march 12"),
        ("2026-03-12", "12th of march"),
        ("2026-03-12", "mar 12th"),
        ("2026-03-12", "2026 03 12"),
        ("____-03-12", "12 march"),
        ("2026-03-__", "march 2026"),
        ("2026-03-__", "2026 03"),
    ],
)
def test_a_text_may_write_a_date_in_any_of_these_forms(pattern: str, text: str) -> None:
    assert text in date_phrases(pattern)


def test_a_year_and_a_month_of_any_year_have_no_phrases() -> None:
    assert date_phrases("2026-__-__") == date_phrases("____-03-__") == []


@given(st.text() | st.from_regex(r"([0-9]{1,4}[ ./-]?(may|June|dec)?,? ?){1,4}"))
def test_any_text_is_accepted(question: str) -> None:
    assert all(len(pattern) == 10 for pattern in read_times(question, NOW).patterns)
