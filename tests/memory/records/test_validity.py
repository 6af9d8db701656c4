"""The period in which a record is valid: `valid_from`, `valid_to`, and reads as of `valid_at`."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from memrelay.memory.engine.as_of import take_back
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from tests.memory.builders import fresh_store, make_store, perform_at

NOW = 1_780_000_000_000  # Unix ms, in May 2026
BERLIN = {"valid_from": "2020-01-01T00:00:00.000Z", "valid_to": "2024-03-01T00:00:00.000Z"}
OPEN = {"valid_from": None, "valid_to": None}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path)


def call(store: Store, name: str, **given: Any) -> Any:
    return perform_at(store, NOW, name, **given)


def period(view: Any) -> dict[str, Any]:
    return {"valid_from": view.valid_from, "valid_to": view.valid_to}


def test_a_period_is_stored_changed_opened_and_restored(store: Store) -> None:
    made = call(store, "records.create", content="lives in Berlin", **BERLIN)
    guid = made.guid
    assert period(made) == period(call(store, "records.get", guid=guid)) == BERLIN

    longer = call(store, "records.update", guid=guid, valid_to="2024-05-01")
    assert period(longer) == BERLIN | {"valid_to": "2024-05-01T00:00:00.000Z"}
    assert longer.version != made.version
    assert period(call(store, "records.update", guid=guid, valid_from="", valid_to="")) == OPEN
    call(store, "records.update", guid=guid, content="lived in Berlin")
    assert period(call(store, "records.restore", guid=guid, number=1)) == BERLIN
    call(store, "records.delete", guid=guid)
    assert period(call(store, "records.restore", guid=guid)) == BERLIN
    states = call(store, "records.history", guid=guid).items
    ends = [state.record.valid_to for state in states if state.record]
    assert ends == [
        BERLIN["valid_to"],
        BERLIN["valid_to"],
        None,
        None,
        "2024-05-01T00:00:00.000Z",
        BERLIN["valid_to"],
    ]


def test_lists_and_filters_select_by_validity(store: Store) -> None:
    old = call(store, "records.create", content="lives in Berlin", **BERLIN).guid
    new = call(store, "records.create", content="lives in Paris", valid_from="2024-03-01").guid
    tea = call(store, "records.create", content="likes tea").guid

    def at(time: str) -> list[str]:
        page = call(store, "records.list", valid_at=time)
        assert page.total == len(page.items)
        return [one.guid for one in page.items]

    assert at("2019-12-31") == [tea]
    assert at("2020-01-01") == at("2024-02-29T23:59:59.999Z") == [old, tea]
    assert at("2024-03-01") == [new, tea]
    ended = {"valid_to": {"lte": "2024-12-31"}}
    assert [one.guid for one in call(store, "records.list", filter=ended).items] == [old]
    never = {"valid_from": {"exists": False}}
    assert [one.guid for one in call(store, "records.list", filter=never).items] == [tea]


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"valid_from": "soon"}, "`valid_from` is a time like"),
        ({"valid_to": "1950-01-01"}, "from 1970"),
        ({"valid_from": "2024-01-02", "valid_to": "2024-01-02"}, "must be later"),
    ],
)
def test_an_impossible_period_is_refused(store: Store, given: dict[str, str], rule: str) -> None:
    with pytest.raises(Refused, match=rule):
        call(store, "records.create", content="x", **given)
    kept = call(store, "records.create", content="lives in Berlin", **BERLIN)
    with pytest.raises(Refused, match="must be later"):
        call(store, "records.update", guid=kept.guid, valid_from=BERLIN["valid_to"])


def search(store: Store, query: str, **given: Any) -> list[str]:
    hits = call(store, "records.search", query=query, **given).items
    return [hit.record.content for hit in hits]


@pytest.mark.parametrize("mode", ["fts", "hybrid"])
def test_a_search_puts_what_is_not_valid_last_at_every_limit(store: Store, mode: str) -> None:
    # Without periods, the shorter texts would come first.
    call(store, "records.create", content="Berlin", **BERLIN)
    call(store, "records.create", content="Berlin soon", valid_from="2030-01-01")
    for number in range(3):
        call(store, "records.create", content=f"moved on from Berlin to Paris in year {number}")

    now = search(store, "Berlin", mode=mode)
    assert {*now[:3]} == {f"moved on from Berlin to Paris in year {number}" for number in range(3)}
    assert {*now[3:]} == {"Berlin", "Berlin soon"}
    for limit in range(1, 5):
        assert search(store, "Berlin", mode=mode, limit=limit) == now[:limit]
    assert search(store, "Berlin", mode=mode, valid_at="2021-05-01")[0] == "Berlin"
    assert search(store, "Berlin", mode=mode, valid_at="2030-05-01")[0] == "Berlin soon"
    assert search(store, "kind:observation", mode=mode)[-1] == "Berlin"

    found = call(store, "records.search", query="Berlin", mode=mode, explain=True)
    scores = [hit.score for hit in found.items]
    assert scores == sorted(scores, reverse=True)
    hits = found.explanation.hits
    assert [hit.valid for hit in hits] == [True] * 3 + [False] * 2
    if mode == "hybrid":
        assert ["validity" in hit.factors for hit in hits] == [False] * 3 + [True] * 2


def test_the_turns_of_a_conversation_are_lowered_too(store: Store) -> None:
    said = ["I live in Berlin, it is lovely", "Where is Berlin?", "we met in Berlin", "Berlin!"]
    for at, text in enumerate(said * 6):
        period = BERLIN if at % 4 == 0 else {}
        content = f"{text} {at}"
        call(store, "records.create", content=content, thread=f"t{at % 12}", **period)

    now = search(store, "where do I live in Berlin", mode="hybrid", limit=24)

    ended = [text.startswith("I live") for text in now]
    assert ended == sorted(ended) and any(ended)
    then = search(store, "where do I live in Berlin", mode="hybrid", valid_at="2022-01-01")
    assert then[0].startswith("I live")


def test_an_update_can_end_what_a_record_says(store: Store) -> None:
    first, second = (call(store, "records.create", content=text) for text in ("tea", "tea time"))
    assert not store.records.has_periods
    call(store, "records.update", guid=first.guid, valid_to="2020-01-01")
    for mode in ("fts", "hybrid"):
        assert search(store, "tea", mode=mode) == ["tea time", "tea"]
    call(store, "records.update", guid=first.guid, valid_to="")
    call(store, "records.update", guid=second.guid, valid_to="2020-01-01")
    for mode in ("fts", "hybrid"):
        assert search(store, "tea", mode=mode) == ["tea", "tea time"]


@settings(max_examples=20, deadline=None)
@drawn(st.lists(st.sampled_from(["tea", "green tea", "tea time", "coffee"]), max_size=12))
def test_the_ranking_without_ended_records_is_unchanged(texts: list[str]) -> None:
    def rank(store: Store) -> list[list[tuple[str, float]]]:
        return [
            [
                (hit.record.content, hit.score)
                for hit in call(store, "records.search", query=query, mode=mode, limit=limit).items
            ]
            for query in ("tea", "green tea")
            for mode in ("fts", "hybrid")
            for limit in (1, 5, 50)
        ]

    with fresh_store() as plain, fresh_store() as other:
        for text in texts:
            call(plain, "records.create", content=text)
            call(other, "records.create", content=text, valid_from="2020-01-01")
        call(plain, "records.create", content="unrelated")
        call(other, "records.create", content="unrelated", **BERLIN)
        assert not plain.records.has_periods
        assert rank(plain) == rank(other)


def test_as_of_and_valid_at_are_independent(store: Store) -> None:
    """What did we believe in April about March, and what do we believe today?"""
    berlin = call(store, "records.create", content="address is Berlin", valid_from="2020-01-01")
    call(store, "records.update", guid=berlin.guid, valid_to="2024-03-01")
    paris = call(store, "records.create", content="address is Paris", valid_from="2024-03-01")
    believed = store.records.versions.last_change
    # In fact, the move was in May.
    call(store, "records.update", guid=berlin.guid, valid_to="2024-05-01")
    call(store, "records.update", guid=paris.guid, valid_from="2024-05-01")

    def address(valid_at: str) -> list[str]:
        listed = call(store, "records.list", valid_at=valid_at).items
        found = search(store, "address", valid_at=valid_at)
        assert [one.content for one in listed] == found[:1]
        return found

    in_berlin = ["address is Berlin", "address is Paris"]
    in_paris = in_berlin[::-1]
    assert address("2024-02-01") == address("2024-04-01") == in_berlin
    assert address("2024-06-01") == in_paris
    take_back(store, believed)
    assert address("2024-02-01") == in_berlin
    assert address("2024-04-01") == address("2024-06-01") == in_paris
