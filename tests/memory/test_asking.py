"""Turns that end by asking count less than those that say something, exactly so, and an explanation
tells of it."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.operations.records_append import AppendInput, append
from memrelay.memory.operations.records_search import SearchInput, search, search_explained
from memrelay.memory.operations.records_write import write
from memrelay.memory.records.record import Record
from memrelay.memory.search.boosts import LONGEST, closing_question_share
from memrelay.memory.search.query import Boosts
from memrelay.memory.sqlite.store import Store
from tests.memory.builders import NOW, PLENTY, contents, fresh_store, make_record

SAID = (
    "tea",
    "Tea?",
    "I like tea. Do you?",
    "Do you? I like tea.",
    "It is tea",
    "tea?!",
    "tea!?",
    "?",
    "a? b? ",
    "\ntea?",
)


def find(store: Store, query: str = "tea", **wanted: Any) -> list[Record]:
    with store.transaction() as tx:
        return search(tx, SearchInput(query, PLENTY, mode="hybrid", **wanted))


def explain(store: Store, query: str) -> Any:
    with store.transaction() as tx:
        return search_explained(tx, SearchInput(query, PLENTY, mode="hybrid", limit=1000))[1]


def say(store: Store, *said: str, **changes: Any) -> None:
    with store.transaction() as tx:
        for text in said:
            write(tx, make_record(text, **changes))


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("", 0),
        ("?", 1),
        ("Tea?", 1),
        ("Tea? ", 1),
        ("Tea", 0),
        ("Tea? Yes.", 0),
        ("Tea??", 1),
        ("Tea. Tea?", 4 / 9),
        ("Tea! Tea?", 4 / 9),
        ("Cup? Tea?", 4 / 9),
        ("Tea\nTea?", 4 / 8),
        ("v1.2?", 1),
        ("\u8336\u3002\u8336\uff1f", 2 / 4),
        ("\u0634\u0627\u064a\u061f", 1),
    ],
)
def test_what_a_text_asks_at_its_end_is_a_share_of_it(text: str, share: float) -> None:
    assert closing_question_share(text) == pytest.approx(share)


@given(st.text())
def test_any_text_has_a_share(text: str) -> None:
    assert 0 <= closing_question_share(text) <= 1


def test_of_two_turns_with_the_same_words_the_one_that_says_them_is_first() -> None:
    with fresh_store() as store:
        say(store, "green tea?", thread="a")
        say(store, "green tea.", thread="b")

        found = find(store, "green tea")

        assert contents(found) == ["green tea.", "green tea?"]
        assert found[1].score == pytest.approx(0.75 * found[0].score)


def test_records_without_a_thread_may_ask() -> None:
    with fresh_store() as store:
        say(store, "green tea?", "green tea.")
        say(store, "other", thread="a")
        first, second = find(store, "green tea")

        assert first.score == second.score and first.content == "green tea?"  # the older one


def test_a_turn_that_is_very_long_counts_whole() -> None:
    with fresh_store() as store:
        say(store, "tea " * LONGEST + "?", thread="a")
        told = explain(store, "tea")

        assert told.hits[0].factors == {}


def test_an_explanation_tells_how_much_less_a_turn_counts() -> None:
    with fresh_store() as store:
        say(store, "Tea.", "I like tea. Tea?", thread="a")
        says, asks = sorted(explain(store, "tea").hits, key=lambda hit: len(hit.factors))

        assert says.factors == {} and asks.factors == {"asks": pytest.approx(1 - 0.25 * 4 / 16)}
        assert asks.score == pytest.approx(
            sum(arm.share for arm in asks.arms) * asks.factors["asks"], rel=1e-4
        )


@pytest.mark.parametrize("boosts", [Boosts(), Boosts(0.8, 30, 0, NOW)])
def test_the_best_are_those_of_all_turns_whatever_the_limit(boosts: Boosts) -> None:
    random = Random(3)
    with fresh_store() as store:
        for number in range(400):
            text = f"{'cup ' * random.randint(0, 9)}tea {number}. {'leaf ' * random.randint(0, 9)}{random.choice(['?', '.'])}"
            say(
                store,
                text,
                thread=f"{number % 23}" if number % 7 else "",
                now_ms=NOW - random.randint(0, 90) * 86_400_000,
            )
        whole = find(store, limit=1000, boosts=boosts)

        assert len(whole) == 400
        for limit in (1, 5, 9, 10, 12, 40, 170):
            assert find(store, limit=limit, boosts=boosts) == whole[:limit]


def test_where_threads_come_that_the_first_nine_lack_those_that_ask_come_later() -> None:
    with fresh_store() as store:
        say(store, *["a green tea"] * 30, thread="a")
        for number, name in enumerate("bcdefghijklm"):
            say(store, f"{name} green{' leaf' * number}{'?' if number < 3 else ''}", thread=name)

        found = [content[0] for content in contents(find(store, "green tea", limit=18))]

        assert found[:10] == [*"a" * 9, "e"]  # before b, c and d, which have fewer words beside
        assert found[9:] != sorted(found[9:]) and len(set(found[9:])) == 9


@given(
    st.lists(
        st.tuples(st.sampled_from(SAID), st.sampled_from(("", "t", "u"))), min_size=1, max_size=30
    )
)
def test_nobody_is_lost_for_asking(said: list[tuple[str, str]]) -> None:
    with fresh_store() as store:
        for text, thread in said:
            say(store, text, thread=thread)
        found = find(store, limit=1000)

        assert sum("tea" in one.content.casefold() for one in found) == sum(
            "tea" in text.casefold() for text, _ in said
        )
        assert all(0 < (one.score or 0) <= 1 for one in found)


def test_what_is_not_committed_yet_may_ask_and_may_stop_asking() -> None:
    with fresh_store() as store, store.transaction() as tx:
        asks, _ = (
            write(tx, make_record(text, thread=thread))
            for text, thread in (("green tea?", "a"), ("green tea.", "b"))
        )
        wanted = SearchInput("green tea", PLENTY, mode="hybrid")
        before = contents(search(tx, wanted))
        append(tx, AppendInput(make_record("Yes."), asks, {}, " "))
        after, told = search_explained(tx, wanted)

        assert before == ["green tea.", "green tea?"] and contents(after) == [
            "green tea.",
            "green tea? Yes.",
        ]
        assert [hit.factors for hit in told.hits] == [{}, {}]
