"""Hostile queries raise only Refused, and never cross a store or a filter. `make fuzz` runs a
million of them."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.records.record import Record
from memrelay.memory.search.query import parse
from tests.memory.search.fuzzing import (
    HOSTILE,
    MODES,
    found,
    make_filter,
    make_hostile_store,
    passes,
    splice,
)

TOGETHER = 50  # queries per example, since an example costs more than a query
# A filter that every record passes, so that a query of exclusions keeps its meaning when filters
# are added.
NEUTRAL = "after:0 "

TEXTS = (
    st.text(max_size=12)
    | st.text('"*-:^(){}+ \x00aB1日ANDORT', max_size=20)
    | st.sampled_from(HOSTILE)
)
QUERY = st.tuples(st.lists(TEXTS, max_size=4).map(" ".join), st.integers(0, 1 << 30))
QUERIES = st.lists(QUERY, min_size=TOGETHER, max_size=TOGETHER)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Store]]:
    root = tmp_path_factory.mktemp("stores")
    made = make_hostile_store(root, "one"), make_hostile_store(root, "two")
    yield made
    for store in made:
        store.close()


def check_query(store: Store, other: Store, mode: str, text: str, chance: Random) -> None:
    """Run one query with and without filters. Compare the results with the oracle."""
    try:
        wanted, query = make_filter(chance, text), parse(text)
        everything = found(store, NEUTRAL + text, mode)
        filtered = found(
            store, f"{wanted.text} {NEUTRAL}{text}", mode, filters=wanted.filters, tags=wanted.tags
        )
        plain = found(store, text, mode)
        limited = found(store, text, mode, limit=3)
        elsewhere = found(other, text, mode)
    except Refused:
        return
    kept = [record for record in everything if wanted.passes(record)]
    assert comparable(filtered, mode) == comparable(kept, mode), (text, wanted)
    assert all(passes(query, record) for record in plain), text
    assert limited == plain[:3], text
    assert all(record.guid.startswith("one-") for record in plain), text
    assert all(record.guid.startswith("two-") for record in elsewhere), text


def comparable(records: list[Record], mode: str) -> list[Record]:
    """Return the records as found. Sort hybrid results, since a filter changes which threads are
    raised."""
    return sorted(records) if mode == "hybrid" else records


@pytest.mark.parametrize("mode", MODES)
def test_each_hostile_text_obeys_the_oracle(stores: tuple[Store, Store], mode: str) -> None:
    for text in HOSTILE:
        check_query(*stores, mode, text, Random(repr(text)))


@pytest.mark.parametrize("mode", MODES)
def test_combined_hostile_texts_obey_the_oracle(
    stores: tuple[Store, Store], mode: str, queries: int
) -> None:
    chance = Random(queries)

    for _ in range(queries // 2 // len(MODES)):
        check_query(*stores, mode, splice(chance), chance)


@pytest.mark.parametrize("mode", MODES)
def test_any_text_obeys_the_oracle(stores: tuple[Store, Store], mode: str, queries: int) -> None:
    @settings(
        max_examples=max(1, queries // 2 // len(MODES) // TOGETHER),
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(QUERIES)
    def check_queries(drawn: list[tuple[str, int]]) -> None:
        for text, seed in drawn:
            check_query(*stores, mode, text, Random(seed))

    check_queries()
