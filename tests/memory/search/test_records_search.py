"""records.search in mode fts: plain words, filters before the limit, best hits first."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused, ResultTooLarge
from memrelay.memory.records.writing import write
from memrelay.memory.search.search import SearchInput, search
from tests.memory.builders import (
    PLENTY,
    append_to,
    contents,
    find,
    fresh_store,
    make_record,
    make_store,
    write_all,
)

STORE_OF_PROPERTIES = (
    "green tea",
    "user-name",
    'he said "tea"',
    "C++ and C#",
    "naïve café",
    "日本 語",
    "100 % sure",
    "a\x00b",
)


def make_library(root: Path) -> Store:
    store = make_store(root)
    write_all(store, *STORE_OF_PROPERTIES)
    return store


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tea", ["green tea", 'he said "tea"']),
        ("TEA", ["green tea", 'he said "tea"']),
        ("tea green", ["green tea"]),
        ("tea coffee", []),
        ("user-name", ["user-name"]),
        ("name-user", []),
        ("name", ["user-name"]),
        ('"tea"', ["green tea", 'he said "tea"']),
        ('said "tea', ['he said "tea"']),
        ("naive CAFE", ["naïve café"]),
        ("日本", ["日本 語"]),
        ("100 %", ["100 % sure"]),
        ("c++", ["C++ and C#"]),
        ("a\x00b", ["a\x00b"]),
        ("tea\x00green", ["green tea"]),
        ("tea — green 😀", ["green tea"]),
        ("te", []),
        ("te*", ["green tea", 'he said "tea"']),
        ("^green", ["green tea"]),
        ("-coffee", []),
        ("tea AND green", []),
        ("tea OR coffee", []),
        ("tea NOT green", []),
        ("NEAR(tea green)", []),
        ("content:tea", []),
        ("{content}: tea", []),
        ("records_fts MATCH 'tea'", []),
        ("tea'; DROP TABLE records; --", []),
    ],
)
def test_a_query_is_never_interpreted_as_fts5_syntax(
    tmp_path: Path, query: str, expected: list[str]
) -> None:
    store = make_library(tmp_path)

    found = contents(find(store, query))

    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    "query",
    ["", " ", "\n\t", "\x00", "-", '"', '""', "* ^ : ( ) { }", "—", "🫖", "\u0301", "'", ";"],
)
def test_a_query_without_a_word_finds_nothing(tmp_path: Path, query: str) -> None:
    assert find(make_library(tmp_path), query) == []


@given(
    st.text(st.characters(codec="utf-8"), max_size=40)
    | st.text('"*^:(){}-+ANDORT \x00', max_size=40)
)
def test_any_text_is_a_valid_query(query: str) -> None:
    with fresh_store() as store:
        write_all(store, *STORE_OF_PROPERTIES)

        found = find(store, query)

        assert len(found) <= len(STORE_OF_PROPERTIES)


@given(
    st.lists(st.text("abcé", min_size=1, max_size=3), min_size=1, max_size=4),
    st.sampled_from(" -_.\n\"'"),
)
def test_every_text_is_found_by_itself(words: list[str], glue: str) -> None:
    text = glue.join(words)

    with fresh_store() as store:
        write_all(store, text, "something else")

        assert text in contents(find(store, text))


def test_hits_are_ordered_by_score(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(
        store,
        "tea in a long sentence about many other things and places",
        "tea tea tea",
        "tea and cake",
    )

    found = find(store, "tea")

    scores = [record.score for record in found]
    assert contents(found)[0] == "tea tea tea"
    assert scores == sorted(scores, reverse=True)


def test_filters_apply_before_the_limit(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *["tea tea tea"] * 500)
    write_all(
        store, "tea somewhere in a long sentence, of a rare kind", kind="rare", tags=("rare",)
    )

    by_kind = find(store, "tea", filters={"kind": "rare"}, limit=1)
    by_tag = find(store, "tea", tags=("rare",), limit=1)

    assert by_kind == by_tag
    assert len(by_kind) == 1


def test_a_limit_returns_the_best_hits(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea in a long sentence about other things", "tea tea", "tea and cake")

    found = find(store, "tea", limit=2)

    assert found == find(store, "tea")[:2]
    assert find(store, "tea", limit=0) == []


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ((), ["a", "ab", "none"]),
        (("a",), ["a", "ab"]),
        (("a", "b"), ["ab"]),
        (("b", "a"), ["ab"]),
        (("A",), []),
        (("a", "c"), []),
        (("a' OR 1=1",), []),
        (('["a"]',), []),
    ],
)
def test_all_tags_must_match(tmp_path: Path, tags: tuple[str, ...], expected: list[str]) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea a", tags=("a",))
    write_all(store, "tea ab", tags=("a", "b"))
    write_all(store, "tea none")

    found = find(store, "tea", tags=tags)

    assert sorted(contents(found)) == [f"tea {name}" for name in expected]


@given(st.lists(st.text(min_size=1), min_size=1, max_size=3, unique=True))
def test_tags_of_any_text_are_matched_exactly(tags: list[str]) -> None:
    with fresh_store() as store:
        write_all(store, "tea", tags=tuple(tags))

        assert len(find(store, "tea", tags=tuple(tags))) == 1
        assert find(store, "tea", tags=(*tags, "".join(tags) + "x")) == []


def test_a_search_sees_writes_and_appends_of_its_transaction(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (old,) = write_all(store, "old tea")

    with store.transaction() as tx:
        write(tx, make_record("new tea"))
        before = contents(find(tx, "tea"))
        append_to(tx, "with milk", guid=old)
        after = contents(find(tx, "milk"))

    assert sorted(before) == ["new tea", "old tea"]
    assert after == ["old tea\nwith milk"]


def test_rolled_back_words_are_not_found(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea")
    store.begin()
    append_to(store, "milk", guid=guid)
    write(store, make_record("sugar"))
    assert len(find(store, "milk")) == len(find(store, "sugar")) == 1

    store.rollback()

    assert find(store, "milk") == find(store, "sugar") == []
    assert contents(find(store, "tea")) == ["tea"]


def test_a_result_beyond_the_size_limit_is_rejected(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *["tea " * 250] * 10)

    with pytest.raises(ResultTooLarge, match="`limit`"):
        search(store, SearchInput("tea", 5000))

    assert len(search(store, SearchInput("tea", 5000, limit=4))) == 4


def test_a_repeated_word_counts_once(tmp_path: Path) -> None:
    store = make_library(tmp_path)

    found = find(store, "tea " * 100_000)

    assert len(found) == 2


def test_a_query_with_too_many_words_is_rejected(
    tmp_path: Path,
) -> None:
    store = make_library(tmp_path)

    with pytest.raises(Refused, match="words"):
        search(store, SearchInput(" ".join(map(str, range(100_000))), PLENTY))


def test_a_word_with_too_many_tokens_is_rejected(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "a " * 100_000)

    with pytest.raises(Refused, match="words"):
        find(store, "a-" * 100_000)
