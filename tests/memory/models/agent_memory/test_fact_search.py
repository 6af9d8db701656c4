"""Search in facts: words in order, whole words, folding, visibility and order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.models.agent_memory.table import BETWEEN, fold, parse_fact_query
from tests.memory.builders import NOW, fresh_store, perform


def has_in_order(text: str, words: tuple[str, ...]) -> bool:
    """Return whether a text contains the words one after the other: the oracle of LIKE."""
    at = 0
    for word in words:
        found = text.find(word, at)
        if found < 0:
            return False
        at = found + len(word)
    return bool(words)


def keep(tx: Store, *keys: str, **given: Any) -> None:
    for key in keys:
        perform(tx, "facts.set", key=key, value=given.get("value", "x"), **given.get("more", {}))


def found(tx: Store, query: str, **given: Any) -> list[str]:
    return [fact.key for fact in perform(tx, "facts.search", query=query, **given).items]


@pytest.fixture
def filled(tx: Store) -> Store:
    keep(tx, "lesson_local_time_command", "local_time_zone", "get-local-time")
    keep(tx, "color", value="blue")
    return tx


TIMES = ["get-local-time", "local_time_zone", "lesson_local_time_command"]


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("local time", TIMES),
        ("LOCAL-TIME", TIMES),
        ("local__time", TIMES),
        (" local\ttime ", TIMES),
        ("time local", TIMES),
        ("cal ti", TIMES),
        ("zone local", ["local_time_zone"]),
        ("cal ti zo", ["local_time_zone"]),
        ("zo cal", []),
        ("local.time", TIMES),
        ("BLUE", ["color"]),
        ("%", []),
        ("lo%al", []),
        ('"local time"', TIMES),
        ("local AND time", []),
        ("local*", TIMES),
    ],
)
def test_words_match_in_order_or_as_whole_words(filled: Store, query: str, keys: list[str]) -> None:
    assert found(filled, query) == keys


@pytest.mark.parametrize("query", ["", " ", "_", "- _ -", "\t\n"])
def test_separators_alone_find_nothing(filled: Store, query: str) -> None:
    assert found(filled, query) == []


@pytest.mark.parametrize(
    ("value", "query"),
    [
        ("Café noir", "CAFÉ"),
        ("Café noir", "cafe noir"),
        ("Café noir", "noir café"),
        ("É", "é"),
        ("Straße", "strasse"),
        ("Привет МИР", "мир"),
        ({"city": "Zürich"}, "zurich"),
        ("100% sure", "100%"),
        ("東京都", "京都"),
        ("getLocalTime", "time local"),
        (["a", {"b": "tea"}], "tea"),
    ],
)
def test_values_match_without_case_and_accents(tx: Store, value: Any, query: str) -> None:
    keep(tx, "k", value=value)

    assert found(tx, query) == ["k"]


def test_words_do_not_span_key_and_value_as_parts(tx: Store) -> None:
    keep(tx, "local", value="timetable")

    assert found(tx, "local time") == []
    assert found(tx, "local timetable") == ["local"]


def test_confidence_then_keys_then_the_newest_come_first(tx: Store) -> None:
    keep(tx, "tea_sure", more={"now_ms": NOW})
    keep(tx, "drink", value="tea", more={"now_ms": NOW + 1})
    keep(tx, "tea_old", more={"now_ms": NOW - 5})
    keep(tx, "tea_unsure", more={"confidence": 0.6, "now_ms": NOW + 2})
    keep(tx, "tea_doubtful", more={"confidence": 0.4, "now_ms": NOW + 2})

    assert found(tx, "tea") == ["tea_sure", "tea_old", "drink", "tea_unsure"]
    assert found(tx, "tea", min_confidence=0)[-1] == "tea_doubtful"
    assert found(tx, "tea", limit=2) == ["tea_sure", "tea_old"]


def test_only_visible_facts_are_found(tx: Store) -> None:
    keep(tx, "tea_global")
    for scope in ("agent", "user", "session"):
        for id_ in ("1", "2"):
            keep(tx, f"tea_{scope}_{id_}", more={"scope": scope, f"{scope}_id": id_})

    assert found(tx, "tea") == ["tea_global"]
    assert found(tx, "tea", user_id="1") == ["tea_user_1", "tea_global"]
    ids = {"agent_id": "1", "user_id": "2", "session_id": "1"}
    assert sorted(found(tx, "tea", **ids)) == [
        "tea_agent_1",
        "tea_global",
        "tea_session_1",
        "tea_user_2",
    ]


def test_types_narrow_a_search(tx: Store) -> None:
    keep(tx, "tea_a")
    keep(tx, "tea_b", more={"fact_type": "correction"})

    assert found(tx, "tea", fact_types=["correction"]) == ["tea_b"]
    with pytest.raises(Refused, match="did you mean 'correction'"):
        found(tx, "tea", fact_types=["corection"])


def test_changed_and_deleted_facts_are_found_as_they_are(tx: Store) -> None:
    keep(tx, "drink", value="Kaffee")
    guid = perform(tx, "facts.set", key="drink", value="thé").fact.id

    assert (found(tx, "kaffee"), found(tx, "the")) == ([], ["drink"])
    perform(tx, "facts.delete", id=guid)
    assert found(tx, "the") == []
    perform(tx, "records.restore", guid=guid)
    assert found(tx, "thé") == ["drink"]


@given(text=st.text(max_size=40), start=st.integers(0, 40), end=st.integers(0, 40))
def test_a_part_of_a_value_finds_its_fact(text: str, start: int, end: int) -> None:
    part = text.replace("\0", " ")[start:end]
    with fresh_store() as store, store.transaction() as tx:
        perform(tx, "facts.set", key="k", value=text.replace("\0", " "))
        wanted = parse_fact_query(part).words

        is_found = bool(found(tx, part))

    assert is_found or not wanted or not has_in_order(fold(text.replace("\0", " ")), wanted)


def test_folding_leaves_no_separator_between_key_and_value() -> None:
    assert fold("ÀÉ ß_x-Y") == "ae ss_x-y"
    assert BETWEEN not in fold("key")


def test_a_list_of_facts_is_narrowed_by_a_query(filled: Store) -> None:
    keep(filled, "time_of_u1", more={"scope": "user", "user_id": "u1"})

    page = perform(filled, "facts.list", query="time zone", limit=1)
    second = perform(filled, "facts.list", query="LOCAL time", limit=1, offset=1)

    assert ([fact.key for fact in page.items], page.total) == (["local_time_zone"], 1)
    assert ([fact.key for fact in second.items], second.total) == (["local_time_zone"], 3)
    assert perform(filled, "facts.list", query="time", scope="user").total == 1
    assert perform(filled, "facts.list", query="zone local").total == 1
    for separators in (" ", "_", "- _"):
        assert perform(filled, "facts.list", query=separators).total == 0
