"""Filters agree with the oracle in lists, counts and searches of every mode, also after edits."""

from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.timestamps import parse_us
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources
from tests.memory.builders import FAST_ROOT, MEMORY_ID, NOW, assert_sound, fresh_store, perform
from tests.memory.records.filtering import aimed_at, filters, passes, records
from tests.memory.search.embedding.embedders import embed_all

MODES = ("fts", "hybrid")
Case = tuple[list[dict[str, Any]], list[dict[str, Any]]]  # records, filters


def as_oracle_record(view: Any) -> dict[str, Any]:
    """Return a record in the form that the oracle expects."""
    unix_ms = {
        name: (parse_us(getattr(view, name)) or 0) // 1000 for name in ("created_at", "updated_at")
    }
    return asdict(view) | {"tags": list(view.tags)} | unix_ms


def create_all(store: Store, wanted: list[dict[str, Any]]) -> None:
    with store.transaction() as tx:
        for one in wanted:
            perform(tx, "records.create", **one)


def edit_some(store: Store, changes: list[dict[str, Any]]) -> None:
    """Give every second record the values of another one, and delete the last record."""
    guids = [item.guid for item in perform(store, "records.list", limit=1000).items]
    with store.transaction() as tx:
        for guid, change in zip(guids[::2], changes, strict=False):
            perform(
                tx,
                "records.update",
                guid=guid,
                now_ms=NOW + 500,
                data=change["data"],
                key=change["key"],
                in_context=change["in_context"],
                tags=change["tags"],
            )
        if guids:
            perform(tx, "records.delete", guid=guids[-1])


def check(store: Store, given: dict[str, Any], modes: tuple[str, ...]) -> None:
    everything = perform(store, "records.list", limit=1000)
    expected = [one for one in everything.items if passes(given, as_oracle_record(one))]
    page = perform(store, "records.list", filter=given, limit=1000)
    assert (list(page.items), page.total) == (expected, len(expected))
    newest = perform(store, "records.list", filter=given, order="desc", limit=1)
    assert (list(newest.items), newest.total) == (expected[-1:], len(expected))
    for mode in modes:
        check_search(store, given, mode)


def check_search(store: Store, given: dict[str, Any], mode: str) -> None:
    """Check that a filtered search returns the filtered results of an unfiltered one, and that the
    limit applies after the filter."""
    everything = perform(store, "records.search", query="tea", mode=mode, limit=1000).items
    expected = [hit for hit in everything if passes(given, as_oracle_record(hit.record))]
    assert (
        list(
            perform(store, "records.search", query="tea", mode=mode, limit=1000, filter=given).items
        )
        == expected
    )
    assert (
        list(perform(store, "records.search", query="tea", mode=mode, limit=1, filter=given).items)
        == expected[:1]
    )


cases = st.lists(records, max_size=6).flatmap(
    lambda found: st.tuples(
        st.just(found),
        st.lists(
            filters if not found else filters | aimed_at(found[0]["data"]), min_size=1, max_size=6
        ),
    )
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases)
def test_lists_and_searches_match_the_oracle(case: Case) -> None:
    check_case(*case)


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases)
def test_lists_and_searches_match_the_oracle_in_many_cases(case: Case) -> None:
    check_case(*case)


def check_case(made: list[dict[str, Any]], filters_to_check: list[dict[str, Any]]) -> None:
    with fresh_store() as store:
        create_all(store, made)
        for given_filter in filters_to_check:
            check(store, given_filter, MODES)
        edit_some(store, made[1:])
        for given_filter in filters_to_check:
            check(store, given_filter, MODES)
        assert_sound(store.path)


@pytest.fixture(scope="module")
def lazy() -> LazyEmbedder:
    loaded = LazyEmbedder(EmbeddingOptions("local"))
    loaded.get()
    return loaded


@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(case=cases)
def test_a_search_by_meaning_matches_the_oracle(lazy: LazyEmbedder, case: Case) -> None:
    made, filters_to_check = case
    with TemporaryDirectory(dir=FAST_ROOT) as root:
        store = Store(
            MEMORY_ID,
            store_path(Path(root), MEMORY_ID),
            meaning=SemanticResources(QuestionEmbedder(lazy), Pool(1 << 20)),
        )
        create_all(store, made)
        embed_all(store, lazy.get())
        for given_filter in filters_to_check:
            check(store, given_filter, ("semantic", "hybrid"))
        store.close()
