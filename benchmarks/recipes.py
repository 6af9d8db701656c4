"""Measure recipes and the sources that they read.

    .venv/bin/python benchmarks/recipes.py [--documents 10000]

All times are from JSON to JSON in the worker, without the bus and HTTP. The built-in embedder has
computed the vector of each question before, and this time is printed alone. Each document has one
chunk.

The recipe has five steps: `kv_get` of 3 keys, `log_search` of 20 events, `vector_search` of 5
documents, `merge` and `format`. It is compared with its operations, called one by one: kv.get,
events.query and documents.search. Bound: 1.3 times their time.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.recall.product import embed_all
from benchmarks.recall_latency import Texts
from memrelay.memory.engine.store import Store
from memrelay.memory.models.recipes.documents import PutDocument, put
from memrelay.memory.operations import Context, find_operation
from memrelay.memory.records.ids import derive_guid
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources
from memrelay.worker.background.index_merge import merge_step
from memrelay.worker.run.calls import answer_call

HOME, NOW = "instances/be9c4001/recipes", 1_700_000_000_000
BATCH, SEARCHES, WARM_UP, WORDS_IN_QUERY, TOP = 1_000, 300, 20, 3, 5
RESULT_BYTES = 8 << 20
KEYS, EVENTS, SHOWN_EVENTS = ["theme", "limits", "units"], 1_000, 20
RECIPE: dict[str, Any] = {
    "id": "five",
    "label": "Five steps",
    "retrieval": {
        "pipeline": [
            {"type": "kv_get", "instance": "app", "namespace": "prefs", "keys": KEYS},
            {"type": "log_search", "instance": "log", "limit": SHOWN_EVENTS},
            {"type": "vector_search", "collection": "docs", "topK": TOP, "minScore": 0},
            {
                "type": "merge",
                "sources": ["kv_get", "log_search", "vector_search"],
                "strategy": "unique",
            },
            {"type": "format"},
        ]
    },
}
_numbers = count(1)


def make_context() -> Context:
    """Return the context of a call."""
    return Context(
        NOW, "bench", RESULT_BYTES, lambda: derive_guid("be9c4001", f"{next(_numbers)}-0", "b", 1)
    )


def call(tx: Store, name: str, /, **given: Any) -> bytes:
    """Run an operation from JSON to JSON, as the worker does."""
    operation = find_operation(name)
    assert operation is not None
    return answer_call(operation, orjson.dumps(given), tx, make_context())


def times_ms(call_one: Callable[[Any], object], arguments: Sequence[Any]) -> list[float]:
    """Return the time of each call."""
    taken = []
    for argument in arguments:
        began = time.perf_counter()
        call_one(argument)
        taken.append((time.perf_counter() - began) * 1000)
    return taken


def show(label: str, taken: Sequence[float]) -> None:
    """Print the median and the 95th percentile."""
    p50, p95 = np.percentile(taken, [50, 95])
    print(f"{label:<54}p50 {p50:8.2f} ms  p95 {p95:8.2f} ms")


def fill(store: Store, texts: Sequence[str]) -> None:
    """Store a document for each text."""
    context, began = make_context(), time.perf_counter()
    for first in range(0, len(texts), BATCH):
        with store.transaction() as tx:
            tx.records.set_actor(NOW, "bench")
            for n, text in enumerate(texts[first : first + BATCH], first):
                put(tx, PutDocument("docs", f"doc/{n:06}", text, f"Document {n}"), context)
    print(f"documents.put: {len(texts) / (time.perf_counter() - began):,.0f} documents per second")
    while merge_step(store):
        pass


def measure_search(store: Store, label: str, queries: Sequence[str], mode: str) -> None:
    """Measure searches of the collection in one transaction each."""

    def search(query: str) -> None:
        with store.transaction() as tx:
            call(tx, "documents.search", collection="docs", query=query, top_k=TOP, mode=mode)

    times_ms(search, queries[:WARM_UP])
    show(f"documents.search, {label}, {mode}", times_ms(search, queries[WARM_UP:]))


def fill_sources(store: Store) -> None:
    """Store the pairs, the events and the recipe."""
    with store.transaction() as tx:
        for key in KEYS:
            pair = {"instance": "app", "namespace": "prefs", "key": key, "value": {"max": 5}}
            call(tx, "kv.set", auto_create=True, **pair)
        events = [
            {
                "stream_id": f"s{n % 7}",
                "event_type": "deploy.ok",
                "payload": {"message": f"run {n}"},
            }
            for n in range(EVENTS)
        ]
        call(tx, "events.append", instance="log", events=events, auto_create=True)
        call(tx, "recipes.create", definition=RECIPE)


def run_recipe(store: Store, query: str) -> None:
    """Run the recipe."""
    with store.transaction() as tx:
        answer = call(tx, "recipes.execute", id="five", intent={"query": query})
    result = orjson.loads(answer)["output"]
    assert result["success"] and len(result["stepResults"]["log_search"]) == SHOWN_EVENTS


def run_operations(store: Store, query: str) -> None:
    """Call the operations that the recipe's steps stand for."""
    with store.transaction() as tx:
        call(tx, "kv.get", instance="app", namespace="prefs", keys=KEYS)
        newest = {"field": "timestamp", "direction": "desc"}
        call(tx, "events.query", instance="log", order_by=newest, limit=SHOWN_EVENTS)
        call(tx, "documents.search", collection="docs", query=query, top_k=TOP, min_score=0)


def measure_recipe(store: Store, queries: Sequence[str]) -> None:
    """Compare the recipe with its operations, in turns."""
    fill_sources(store)
    recipe, operations = list[float](), list[float]()
    for query in queries:
        recipe += times_ms(partial(run_recipe, store), [query])
        operations += times_ms(partial(run_operations, store), [query])
    show("recipe of five steps", recipe[WARM_UP:])
    show("its operations", operations[WARM_UP:])
    ratio = np.median(recipe[WARM_UP:]) / np.median(operations[WARM_UP:])
    print(f"ratio of the medians {ratio:.2f} (≤ 1.3)")


def ask(questions: QuestionEmbedder, query: str) -> None:
    """Compute the vector of a question."""
    questions.prepare([query]).result()


def measure_documents(folder: Path, size: int) -> None:
    """Measure searches over so many documents, with and without the built-in embedder."""
    texts = Texts()
    contents = list(texts.make_records(size))
    queries = [texts.make_query(WORDS_IN_QUERY) for _ in range(SEARCHES)]
    plain = Store(HOME, folder / "plain.db")
    fill(plain, contents)
    for mode in ("hybrid", "fts"):
        measure_search(plain, "without an embedder", queries, mode)
    plain.close()
    questions = QuestionEmbedder(LazyEmbedder(EmbeddingOptions("local")))
    store = Store(HOME, folder / "meaning.db", SemanticResources(questions, Pool()))
    fill(store, contents)
    embed_all(store, questions.embedder.get())
    show("vector of a question", times_ms(partial(ask, questions), queries))
    for mode in ("hybrid", "semantic"):
        measure_search(store, "with the built-in embedder", queries, mode)
    measure_recipe(store, queries)
    store.close()
    questions.close()


def main() -> None:
    """Measure searches of documents, and the recipe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        measure_documents(Path(name), given.documents)


if __name__ == "__main__":
    main()
