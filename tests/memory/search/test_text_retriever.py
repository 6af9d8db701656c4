"""Words in very many records are ranked in memory with the same records, order and scores as FTS5,
to the last bit."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memrelay.memory.engine import postings
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import Refused
from memrelay.memory.records.deletion import DeleteInput, delete
from memrelay.memory.records.writing import AppendInput, append, write
from memrelay.memory.search import search as search_module
from memrelay.memory.search import text_retriever as relevance
from memrelay.memory.search.query import parse
from memrelay.memory.search.search import SearchInput, search
from memrelay.memory.search.text_retriever import Relevance, plain_words
from tests.memory.builders import (
    NOW,
    PLENTY,
    fresh_store,
    make_record,
    make_store,
    perform,
    write_all,
)
from tests.memory.search.fuzzing import HOSTILE, make_hostile_store, splice

WORDS = ("tea", "cup", "Sky", "userName", "snake_case", "東京", "café", "1,000")
QUERIES = (
    "tea",
    "tea cup",
    "cup tea sky",
    "TEA tea",
    "tea -sky",
    "tea kind:a",
    "sky tag:x",
    "cafe cup",
    "user",
    "none tea",
)
NEVER = 1 << 60


@pytest.fixture(autouse=True)
def always_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relevance, "MIN_POSTINGS_IN_MEMORY", 0)
    monkeypatch.setattr(search_module, "MIN_ROWS_FOR_RANKER", 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def found(tx: Store, text: str, many: int, limit: int | None) -> list[tuple[str, float]] | str:
    """Search in memory if the store has at least `many` rows, and with FTS5 otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "MIN_ROWS_FOR_RANKER", many)
        try:
            return [
                (one.guid, one.score) for one in search(tx, SearchInput(text, PLENTY, limit=limit))
            ]
        except Refused as error:
            return str(error)


def assert_same(tx: Store, *queries: str, limits: tuple[int | None, ...] = (None, 2)) -> None:
    for text in queries:
        for limit in limits:
            assert found(tx, text, 0, limit) == found(tx, text, NEVER, limit), (text, limit)


def change(tx: Store, step: tuple[str, int, str]) -> None:
    name, number, content = step
    guids = [one.guid for one in tx.records.latest("", search_module.Conditions(), None)]
    if name == "write":
        write(tx, make_record(content, kind="ab"[number % 2], tags=("x",) * (number % 3)))
    elif name == "turn":
        write(tx, make_record(content, thread="t", seq=number))
    elif name == "expiring":
        perform(
            tx,
            "records.create",
            now_ms=NOW,
            content=content,
            expires_at=format_time(NOW + 1 + number),
        )
    elif guids and name == "append":
        append(tx, AppendInput(make_record(content), guids[number % len(guids)], {}, " "))
    elif guids and name == "delete":
        delete(tx, DeleteInput(guids[number % len(guids)]))
    elif name == "delete kind":
        delete(tx, DeleteInput(kind="b"))


def change_all(tx: Store, changes: list[tuple[str, int, str]]) -> None:
    for step in changes:
        change(tx, step)


class Rollback(Exception):
    """Raised to roll a transaction back."""


def fail_if(lost: bool) -> None:
    if lost:
        raise Rollback


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
names = ("write", "write", "write", "turn", "expiring", "append", "append", "delete", "delete kind")
steps = st.lists(
    st.tuples(st.sampled_from(names), st.integers(0, 50), texts), min_size=1, max_size=8
)
batches = st.lists(st.tuples(steps, st.booleans(), st.booleans()), min_size=1, max_size=6)


@settings(max_examples=25)
@given(batches=batches)
def test_in_memory_ranking_equals_fts5_after_every_change_and_rollback(
    batches: list[tuple[Any, bool, bool]],
) -> None:
    check_batches(batches)


@pytest.mark.slow
@settings(max_examples=400)
@given(batches=batches)
def test_in_memory_ranking_equals_fts5_in_many_histories(
    batches: list[tuple[Any, bool, bool]],
) -> None:
    check_batches(batches)


def check_batches(batches: list[tuple[Any, bool, bool]]) -> None:
    with fresh_store() as store:
        for number, (changes, searched_inside, lost) in enumerate(batches):
            with suppress(Rollback), store.transaction() as tx:
                change_all(tx, changes)
                tx.records.set_actor(NOW + 10 * number, "tester")
                assert_same(tx, *QUERIES if searched_inside else ())
                fail_if(lost)
            with store.transaction() as tx:
                assert_same(tx, *QUERIES)


def test_a_reused_row_belongs_to_the_new_record(store: Store) -> None:
    guids = write_all(store, "tea", "tea cup", "tea sky")
    with store.transaction() as tx:
        assert_same(tx, "tea")
        delete(tx, DeleteInput(guids[-1]))
    with store.transaction() as tx:
        assert_same(tx, "tea")
    with pytest.raises(Rollback), store.transaction() as tx:
        raise Rollback

    write_all(store, "tea tea")

    with store.transaction() as tx:
        assert len(found(tx, "tea", 0, None)) == 3
        assert_same(tx, "tea")


def test_hostile_queries_find_the_same_as_fts5(tmp_path: Path) -> None:
    store, chance = make_hostile_store(tmp_path, "one"), Random(1)
    with store.transaction() as tx:
        assert_same(tx, *HOSTILE, *(splice(chance) for _ in range(300)))
    store.close()


def test_rare_words_are_left_to_fts5_without_reading_postings(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relevance, "MIN_POSTINGS_IN_MEMORY", 100)
    write_all(store, *["tea cup"] * 60, *["tea"] * 60)
    with store.transaction() as tx:
        assert tx.ranker.search_by_relevance(parse("cup"), search_module.Conditions(), 3) is None
        assert tx.ranker.nbytes() == 0
        assert (
            len(tx.ranker.search_by_relevance(parse("tea"), search_module.Conditions(), 3) or ())
            == 3
        )
        assert_same(tx, "tea", "cup", "cup tea")


def test_a_query_whose_postings_exceed_the_budget_is_left_to_fts5(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(store, *["tea cup"] * 60)
    monkeypatch.setattr(postings, "LEAST_BYTES", 12 * 119)
    monkeypatch.setattr(postings, "BYTES_A_RECORD", 0)
    with store.transaction() as tx:
        assert (
            tx.ranker.search_by_relevance(parse("cup tea"), search_module.Conditions(), 3) is None
        )
        assert (
            tx.ranker.search_by_relevance(parse("cup"), search_module.Conditions(), 3) is not None
        )
        assert_same(tx, "tea", "cup", "cup tea")


def test_a_word_is_counted_again_after_the_store_has_grown(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relevance, "MIN_POSTINGS_IN_MEMORY", 30)
    with store.transaction() as tx:
        for _ in range(20):
            write(tx, make_record("tea"))
        tx.ranker.search(parse("tea"), search_module.Conditions(), 1, "english")
        counts = Relevance(tx.ranker._vocabulary)
        assert not counts.is_faster(("tea",), 20)
        for _ in range(10):
            write(tx, make_record("tea"))
        tx.records.complete()

        assert not counts.is_faster(("tea",), 24)
        assert counts.is_faster(("tea",), 30)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tea Cup", ("tea", "cup")),
        ("Café kind:a -x", ("cafe",)),
        ("user_name", ()),
        ("tea userName", ()),
        ("te*", ()),
        ('"green tea"', ()),
        ("東京", ()),
        ("1,000", ()),
        ("kind:a", ()),
        ("don't", ()),
    ],
)
def test_only_plain_words_are_ranked_in_memory(text: str, words: tuple[str, ...]) -> None:
    assert plain_words(parse(text)) == words
