"""The search caches of all threads together stay within one limit; the oldest are dropped."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import IN_USE, Pool, SemanticResources
from tests.memory.builders import find, write_all

SIZE = 100


class Bytes:
    """A cache of a fixed size."""

    def __init__(self) -> None:
        self.is_dropped = False

    def nbytes(self) -> int:
        return SIZE

    def drop(self) -> None:
        self.is_dropped = True


def test_the_least_recently_used_caches_are_dropped() -> None:
    pool, caches = Pool(3 * SIZE), [Bytes() for _ in range(5)]

    for cache in (*caches[:3], caches[0], *caches[3:]):
        pool.mark_used(cache)

    assert [cache.is_dropped for cache in caches] == [False, True, True, False, False]
    assert pool.nbytes == 3 * SIZE


def test_a_thread_drops_its_own_caches_and_marks_those_of_others() -> None:
    pool, old, new = Pool(SIZE), [Bytes() for _ in range(3)], Bytes()
    with ThreadPoolExecutor(1) as other:
        for cache in old:
            other.submit(pool.mark_used, cache).result()
        pool.mark_used(new)
        assert [cache.is_dropped for cache in old] == [True, False, False]
        for cache in (Bytes(), Bytes()):
            other.submit(pool.mark_used, cache).result()
        assert [cache.is_dropped for cache in old] == [True, True, True]


def test_the_caches_that_a_thread_used_last_stay_above_the_limit() -> None:
    pool, caches = Pool(0), [Bytes() for _ in range(IN_USE + 1)]

    for cache in caches:
        pool.mark_used(cache)

    assert [cache.is_dropped for cache in caches] == [True] + [False] * IN_USE


def test_searches_over_many_stores_stay_within_the_limit(tmp_path: Path) -> None:
    lazy = LazyEmbedder(EmbeddingOptions("none"))
    pool = Pool(20_000)
    stores = []
    for number in range(12):
        meaning = SemanticResources(QuestionEmbedder(lazy), pool)
        path = store_path(tmp_path, f"instances/p{number}/m")
        stores.append(Store(f"instances/p{number}/m", path, meaning))
        write_all(stores[-1], *[f"tea {one}" for one in range(50)])

    for _ in range(2):
        for store in stores:
            assert len(find(store, "tea", mode="hybrid")) == 10
            assert pool.nbytes <= 20_000
    sizes = [store.ranker.nbytes() for store in stores]
    assert sum(sizes) == pool.nbytes > 0
    assert sizes[0] == 0
