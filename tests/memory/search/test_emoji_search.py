"""Searches for emoji, and questions in scripts without spaces."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from memrelay.memory.engine.connection import make_template
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.search.search import Mode, SearchInput, search, search_explained
from tests.memory.builders import (
    MEMORY_ID,
    NOW,
    PLENTY,
    assert_sound,
    make_guid,
    make_store,
    write_all,
)

CONTENTS = (
    "We shipped it 🎉",
    "👍🏽",
    "no ❤\ufe0f here",
    "他在北京的一家银行工作",
    "彼女は東京で医者をしています",
    "그는 서울에서 요리사로 일합니다",
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    write_all(store, *CONTENTS)
    yield store
    store.close()


def found(store: Store, query: str, mode: Mode = "hybrid", **wanted: bool) -> list[str]:
    with store.transaction() as tx:
        return [one.content for one in search(tx, SearchInput(query, PLENTY, mode=mode, **wanted))]


@pytest.mark.parametrize("mode", ["fts", "hybrid"])
@pytest.mark.parametrize(
    ("query", "place"), [("🎉", 0), ("shipped 🎉", 0), ("👍", 1), ("👍🏿", 1), ("❤", 2)]
)
def test_an_emoji_finds_its_record(store: Store, query: str, place: int, mode: Mode) -> None:
    assert found(store, query, mode) == [CONTENTS[place]]
    assert found(store, query, mode, plain=True) == [CONTENTS[place]]


def test_an_emoji_that_no_record_has_is_unknown(store: Store) -> None:
    with store.transaction() as tx:
        _, explanation = search_explained(tx, SearchInput("🦀", PLENTY, mode="hybrid"))

    assert explanation.query.words == ("🦀",) and explanation.terms[0].term == "🦀"
    assert explanation.nothing is not None and explanation.nothing.detail == "no record has '🦀'"


def test_records_of_an_older_schema_get_their_emoji(tmp_path: Path) -> None:
    path = store_path(tmp_path, MEMORY_ID)
    path.parent.mkdir(parents=True)
    path.write_bytes(make_template(26))
    with apsw.Connection(str(path)) as connection:
        connection.execute(
            "INSERT INTO records(guid, scope, kind, content, source, created_at, updated_at) "
            "VALUES (?, ?, 'observation', 'tea 🎉', 'ann', ?, ?)",
            (make_guid(), MEMORY_ID, NOW, NOW),
        )
        connection.execute("INSERT INTO records_fts(records_fts) VALUES ('rebuild')")
    connection.close()

    store = make_store(tmp_path)

    assert found(store, "🎉", "fts") == ["tea 🎉"]
    store.close()
    assert_sound(store.path)


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("他在哪里工作\uff1f", 3),
        ("她在什么银行\uff1f", 3),
        ("彼女は何の医者ですか", 4),
        ("彼女はどこで働いていますか", 4),
        ("그는 어디에서 일합니까", 5),
        ("서울에서 무엇을 합니까", 5),
    ],
)
def test_a_question_without_spaces_finds_its_record(store: Store, query: str, place: int) -> None:
    assert found(store, query)[0] == CONTENTS[place]


def test_question_words_are_stop_words_unless_nothing_else_is_asked(store: Store) -> None:
    write_all(store, "什么都可以")

    assert found(store, "什么") == ["什么都可以"]
    with store.transaction() as tx:
        _, explanation = search_explained(tx, SearchInput("哪里有银行", PLENTY, mode="hybrid"))
    assert {term.term: term.state for term in explanation.terms} == {
        "有银": "unknown",
        "银行": "wanted",
        "哪里": "stop word",
        "里有": "stop word",
    }
