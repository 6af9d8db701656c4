"""Turns that end with a question get an exact penalty, which the explanation shows."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.engine.store import Store
from memrelay.memory.records.record import Record
from memrelay.memory.records.writing import AppendInput, append, write
from memrelay.memory.search.boosts import LONGEST, closing_question_share
from memrelay.memory.search.query import Boosts
from memrelay.memory.search.search import SearchInput, search, search_explained
from tests.memory.builders import NOW, PLENTY, contents, fresh_store, make_record

TEXTS = (
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


def write_all_texts(store: Store, *texts: str, **changes: Any) -> None:
    with store.transaction() as tx:
        for text in texts:
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
def test_the_closing_question_is_a_share_of_the_text(text: str, share: float) -> None:
    assert closing_question_share(text) == pytest.approx(share)


@given(st.text())
def test_the_share_of_any_text_is_between_0_and_1(text: str) -> None:
    assert 0 <= closing_question_share(text) <= 1


def test_a_statement_ranks_before_a_question_with_the_same_words() -> None:
    with fresh_store() as store:
        write_all_texts(store, "green tea?", thread="a")
        write_all_texts(store, "green tea.", thread="b")

        found = find(store, "green tea")

        assert contents(found) == ["green tea.", "green tea?"]
        assert found[1].score == pytest.approx(0.75 * found[0].score)


def test_records_without_a_thread_are_not_penalized() -> None:
    with fresh_store() as store:
        write_all_texts(store, "green tea?", "green tea.")
        write_all_texts(store, "other", thread="a")
        first, second = find(store, "green tea")

        assert (
            first.score == second.score and first.content == "green tea."
        )  # the newer record is first


def test_a_very_long_turn_is_not_penalized() -> None:
    with fresh_store() as store:
        write_all_texts(store, "tea " * LONGEST + "?", thread="a")
        explanation = explain(store, "tea")

        assert explanation.hits[0].factors == {}


def test_an_explanation_shows_the_penalty_factor() -> None:
    with fresh_store() as store:
        write_all_texts(store, "Tea.", "I like tea. Tea?", thread="a")
        statement, question = sorted(explain(store, "tea").hits, key=lambda hit: len(hit.factors))

        assert statement.factors == {} and question.factors == {
            "asks": pytest.approx(1 - 0.25 * 4 / 16)
        }
        assert question.score == pytest.approx(
            sum(arm.share for arm in question.arms) * question.factors["asks"], rel=1e-4
        )


@pytest.mark.parametrize("boosts", [Boosts(), Boosts(0.8, 30, 0, NOW)])
def test_every_limit_returns_the_best_of_all_turns(boosts: Boosts) -> None:
    random = Random(3)
    with fresh_store() as store:
        for number in range(400):
            text = f"{'cup ' * random.randint(0, 9)}tea {number}. {'leaf ' * random.randint(0, 9)}"
            text += random.choice(["?", "."])
            write_all_texts(
                store,
                text,
                thread=f"{number % 23}" if number % 7 else "",
                now_ms=NOW - random.randint(0, 90) * 86_400_000,
            )
        whole = find(store, limit=1000, boosts=boosts)

        assert len(whole) == 400
        for limit in (1, 5, 9, 10, 12, 40, 170):
            assert find(store, limit=limit, boosts=boosts) == whole[:limit]


def test_among_raised_threads_questions_come_later() -> None:
    with fresh_store() as store:
        write_all_texts(store, *["a green tea"] * 30, thread="a")
        for number, name in enumerate("bcdefghijklm"):
            write_all_texts(
                store, f"{name} green{' leaf' * number}{'?' if number < 3 else ''}", thread=name
            )

        found = [content[0] for content in contents(find(store, "green tea", limit=18))]

        # before b, c and d, which have fewer other words
        assert found[:10] == [*"a" * 9, "e"]
        assert found[9:] != sorted(found[9:]) and len(set(found[9:])) == 9


@given(
    st.lists(
        st.tuples(st.sampled_from(TEXTS), st.sampled_from(("", "t", "u"))), min_size=1, max_size=30
    )
)
def test_the_penalty_loses_no_record(texts: list[tuple[str, str]]) -> None:
    with fresh_store() as store:
        for text, thread in texts:
            write_all_texts(store, text, thread=thread)
        found = find(store, limit=1000)

        assert sum("tea" in one.content.casefold() for one in found) == sum(
            "tea" in text.casefold() for text, _ in texts
        )
        assert all(0 < (one.score or 0) <= 1 for one in found)


def test_the_penalty_follows_uncommitted_appends() -> None:
    with fresh_store() as store, store.transaction() as tx:
        question, _ = (
            write(tx, make_record(text, thread=thread))
            for text, thread in (("green tea?", "a"), ("green tea.", "b"))
        )
        wanted = SearchInput("green tea", PLENTY, mode="hybrid")
        before = contents(search(tx, wanted))
        append(tx, AppendInput(make_record("Yes."), question, {}, " "))
        after, explanation = search_explained(tx, wanted)

        assert before == ["green tea.", "green tea?"] and contents(after) == [
            "green tea.",
            "green tea? Yes.",
        ]
        assert [hit.factors for hit in explanation.hits] == [{}, {}]
