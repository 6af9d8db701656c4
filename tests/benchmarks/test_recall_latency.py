"""The search latency benchmark: its stores are searched by words, and by vectors on request."""

from pathlib import Path

import pytest

from benchmarks.recall_latency import measure, open_filled, word
from memrelay.memory.search.search import SearchInput, search_explained


@pytest.mark.parametrize(("vectors", "arms"), [(False, {"text"}), (True, {"text", "vector"})])
def test_the_benchmark_stores_are_searched_by_every_measured_arm(
    tmp_path: Path, vectors: bool, arms: set[str]
) -> None:
    store = open_filled(500, tmp_path, turns=True, vectors=vectors)
    with store.transaction() as tx:
        found, explanation = search_explained(
            tx, SearchInput(word(0), 1 << 30, mode="hybrid", limit=20)
        )
    p50, p95, longest, cpu = measure(store, [word(0), word(1)], tags=("tag1",))
    store.close()

    assert len(found) == 20 and {arm.arm for hit in explanation.hits for arm in hit.arms} == arms
    assert 0 < p50 <= p95 <= longest and cpu > 0
