"""Recency and importance: exact at every limit, between 0 and 1, and only in ranked modes."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.records.writing import write
from memrelay.memory.search.query import NO_BOOSTS, Boosts
from memrelay.memory.search.search import SearchInput, search
from tests.memory.builders import (
    NOW,
    PLENTY,
    contents,
    fresh_store,
    make_record,
    make_store,
    perform,
    write_all,
)

DAY_MS = 86_400_000
RATINGS = (
    None,
    '{"importance": 1}',
    '{"importance": 0}',
    '{"importance": 0.25}',
    '{"importance": 7}',
    '{"importance": -3}',
    '{"importance": "high"}',
    '{"importance": true}',
    "[1]",
    "no JSON",
    '{"importance": 1e400}',
)
WORTH = (0.5, 1, 0, 0.25, 1, 0, 0.5, 0.5, 0.5, 0.5, 1)


def scores(store: Store, query: str, boosts: Boosts, limit: int = 1000) -> dict[str, float]:
    with store.transaction() as tx:
        found = search(tx, SearchInput(query, PLENTY, mode="hybrid", limit=limit, boosts=boosts))
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert all(0 < one.score <= 1 for one in found)
    return {one.content: one.score for one in found}


def rate(store: Store, ratings: dict[str, str | None]) -> None:
    with store.transaction() as tx:
        tx.records.flush()
        for content, data in ratings.items():
            tx._connection.execute("UPDATE records SET data = ? WHERE content = ?", (data, content))


def test_every_limit_returns_the_best_of_all_records(tmp_path: Path) -> None:
    store, random = make_store(tmp_path), Random(7)
    ages = {
        f"tea {'cup ' * random.randint(0, 20)}{number}": random.randint(0, 90)
        for number in range(700)
    }
    with store.transaction() as tx:
        for content, days in ages.items():
            write(tx, make_record(content, now_ms=NOW - days * DAY_MS))
    plain = scores(store, "tea", NO_BOOSTS)

    for recency in (0.3, 1.0):
        expected = {
            content: score
            * (
                1
                - recency
                + recency * (0.5 ** (ages[content] / 30) + 0.5 ** (ages[content] / 360)) / 2
            )
            for content, score in plain.items()
        }
        best = sorted(expected.values(), reverse=True)
        for limit in (1, 10, 300, 1000):
            found = scores(store, "tea", Boosts(recency, 30, 0, NOW), limit)
            assert list(found.values()) == pytest.approx(best[:limit], rel=1e-5)
            assert all(
                score == pytest.approx(expected[content], rel=1e-5)
                for content, score in found.items()
            )


@given(st.floats(0, 1), st.floats(0, 1), st.integers(-1000, 100_000), st.floats(0.001, 36_525))
def test_boosted_scores_stay_between_0_and_1_and_no_record_is_lost(
    recency: float, importance: float, days: int, half: float
) -> None:
    with fresh_store() as store:
        write_all(store, "old tea", now_ms=max(NOW - days * DAY_MS, 0))
        write_all(store, "new tea", now_ms=NOW)
        plain, found = (
            scores(store, "tea", boosts)
            for boosts in (NO_BOOSTS, Boosts(recency, half, importance, NOW))
        )

    assert found.keys() == plain.keys()
    assert all(found[content] <= plain[content] for content in found)


def test_importance_is_read_from_data_and_defaults_to_one_half(
    tmp_path: Path,
) -> None:
    store, names = make_store(tmp_path), [f"tea {number:02}" for number in range(len(RATINGS))]
    write_all(store, *names)
    rate(store, dict(zip(names, RATINGS, strict=True)))
    plain = scores(store, "tea", NO_BOOSTS)

    found = scores(store, "tea", Boosts(importance=0.8, now_ms=NOW))

    assert {name: found[name] / plain[name] for name in names} == pytest.approx(
        {name: 0.2 + 0.8 * worth for name, worth in zip(names, WORTH, strict=True)}, rel=1e-5
    )


def test_recency_ranks_a_newer_record_before_an_equal_older_one(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea, new", now_ms=NOW)
    write_all(store, "tea, old", now_ms=NOW - 60 * DAY_MS)

    def found(**more: Any) -> list[str]:
        hits = perform(store, "records.search", query="tea", mode="hybrid", **more)
        return contents([hit.record for hit in hits.items])

    assert found() == found(recency=0) == ["tea, old", "tea, new"]
    assert found(recency=0.2) == ["tea, new", "tea, old"]


@pytest.mark.parametrize("boosts", [{"recency": 0.5}, {"importance": 1}])
def test_boosts_are_rejected_in_fts_mode(tmp_path: Path, boosts: dict[str, float]) -> None:
    with pytest.raises(Refused, match="set `mode` to hybrid or semantic"):
        perform(make_store(tmp_path), "records.search", query="tea", mode="fts", **boosts)
