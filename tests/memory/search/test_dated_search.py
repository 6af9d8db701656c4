"""Dates in a question of a ranked search: records of that time come first."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay.memory.engine.store import Store
from tests.memory.builders import make_store, perform_at, write_all

DAY_MS = 86_400_000
NOW = 1_795_694_400_000  # Thursday, 26 November 2026, 12:00


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    for days, content in (
        (0, "We planned the offsite"),
        (1, "Bob fixed the login page"),
        (8, "Bob broke the login page"),
        (260, "Bob designed the login page"),
        (400, "Ann said yesterday that the offsite is a bad idea"),
    ):
        write_all(store, content, now_ms=NOW - days * DAY_MS)
    yield store
    store.close()


def search(store: Store, query: str, **wanted: object) -> list[str]:
    found = perform_at(store, NOW, "records.search", query=query, mode="hybrid", **wanted)
    return [item.record.content for item in found.items]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("what did I do yesterday?", ["Bob fixed the login page"]),
        ("what happened last week", ["Bob broke the login page"]),
        ("what was said today", ["We planned the offsite"]),
    ],
)
def test_a_question_for_a_time_alone_finds_its_records(
    store: Store, query: str, expected: list[str]
) -> None:
    assert search(store, query) == expected


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("what did Bob do to the login page yesterday", "Bob fixed the login page"),
        ("what did Bob do to the login page last week", "Bob broke the login page"),
        ("what did Bob do to the login page last March", "Bob designed the login page"),
        ("what did Bob do to the login page on November 18", "Bob broke the login page"),
    ],
)
def test_records_of_the_time_come_first_and_none_is_lost(
    store: Store, query: str, first: str
) -> None:
    found = search(store, query)

    assert found[0] == first and sum("login" in one for one in found) == 3


def test_a_date_in_the_text_counts(store: Store) -> None:
    write_all(store, "The invoice of Acme is due on March 12", now_ms=NOW)
    write_all(store, "The invoice of Acme was late", now_ms=NOW)

    assert search(store, "invoice of Acme on 2027-03-12")[0].endswith("March 12")


def test_without_records_of_that_time_the_words_are_searched_for(store: Store) -> None:
    write_all(store, "The Beatles sang Yesterday", now_ms=NOW - 9 * DAY_MS)

    assert search(store, "the day before yesterday")[0] == "The Beatles sang Yesterday"


def test_recency_tells_months_from_years(store: Store) -> None:
    write_all(store, "Eve works at Acme", now_ms=NOW - 660 * DAY_MS)
    write_all(store, "Eve now works at Globex Inc", now_ms=NOW - 180 * DAY_MS)

    assert search(store, "where does Eve work")[0] == "Eve works at Acme"
    assert search(store, "where does Eve work", recency=0.5)[0] == "Eve now works at Globex Inc"
