"""Measure items in shared stores: reads, pages, searches and expiry, with their bounds.

    .venv/bin/python benchmarks/items.py [--part get] [--part pages] [--part search]
    [--part expiry] [--expired 1000000]

Times are of the operation in the worker, without the bus and HTTP. Ratios compare figures of one
run. Searches use synthetic vectors, as in benchmarks/recall_latency.py. The built-in model's 5 ms
per question come on top.
"""

import argparse
import asyncio
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.recall.product import embed_all
from benchmarks.recall_latency import Texts
from benchmarks.support.synthetic_vectors import LoadedEmbedder, SyntheticVectors
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.engine.threads import DatabaseThread
from memrelay.memory.engine.versions import State
from memrelay.memory.models.shared_stores import ITEM_KIND
from memrelay.memory.operations import Context, find_operation
from memrelay.memory.records.ids import derive_guid
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources
from memrelay.worker.background.expiry import ExpiryTask
from memrelay.worker.background.index_merge import merge_step
from memrelay.worker.run.calls import answer_call

NAME, NOW, LATER = "instances/be9c4001/stores", 1_700_000_000_000, 1_700_000_000_000 + 10**7
FEW, MANY, BATCH, ROUNDS = 1_000, 100_000, 1_000, 3_000
RESULT_BYTES = 8 << 20
_numbers = count(1)


def fill(store: Store, texts: Sequence[str], *, stores: int = 1, ends: int | None = None) -> None:
    """Write an item for each text, spread over stores `s0`, `s1` and so on."""
    for first in range(0, len(texts), BATCH):
        with store.transaction() as tx:
            tx.records.set_actor(NOW, "bench")
            for n, text in enumerate(texts[first : first + BATCH], first):
                tx.records.insert_state(make_state(n, f"s{n % stores}", text, ends))
    while merge_step(store):
        pass


def make_state(n: int, name: str, text: str, ends: int | None) -> State:
    """Return the n-th item."""
    guid, key = derive_guid("be9c4001", f"{NOW + n}-0", "bench", 1), f"k/{n:05}"
    ends = None if ends is None else ends + n // 100
    fixed = (guid, 1, name, ITEM_KIND, name, "[]", NOW + n, NOW + n, key, name, None, ends)
    return State(*fixed, in_context=1, encrypted=0, thread=None, seq=None, crc=None, content=text)


def call(tx: Store, name: str, /, **given: Any) -> bytes:
    """Run a read as the owner of `s0`, from JSON to JSON as the worker does; return its answer."""
    operation = find_operation(name)
    assert operation is not None
    context = Context(NOW, "bench", RESULT_BYTES, lambda: str(next(_numbers)))
    return answer_call(operation, orjson.dumps({"agent": "s0"} | given), tx, context)


def times_ms(call_one: Callable[[Any], object], arguments: Sequence[Any]) -> list[float]:
    """Return the time of each call."""
    taken = []
    for argument in arguments:
        began = time.perf_counter()
        call_one(argument)
        taken.append((time.perf_counter() - began) * 1000)
    return taken


def compare(label: str, few: list[float], many: list[float], bound: float) -> None:
    """Print the medians of two series and their ratio."""
    a, b = np.median(few), np.median(many)
    p95 = np.percentile(many, 95)
    print(f"{label:<34}{a:8.3f} ms {b:8.3f} ms (p95 {p95:.3f})  ratio {b / a:.2f} (≤ {bound})")


def measure_get(few: Store, many: Store) -> None:
    """Compare reads of random keys, and pages with a prefix, in small and large stores."""
    chance = np.random.default_rng(1)
    series: list[list[float]] = [[], [], [], []]
    for _ in range(5):
        for at, (store, size) in enumerate(((few, FEW), (many, MANY))):
            keys = [f"k/{n:05}" for n in chance.integers(0, size, ROUNDS // 5)]
            get = partial(call, store, "items.get", store="s0")
            series[at] += times_ms(lambda key, get=get: get(key=key), keys)
            prefixes = [f"k/{n:04}" for n in chance.integers(0, size // 10, ROUNDS // 50)]
            page = partial(call, store, "items.list", store="s0")
            series[2 + at] += times_ms(lambda prefix, page=page: page(prefix=prefix), prefixes)
    compare(f"get at {FEW:,} and {MANY:,} keys", *series[:2], 1.2)
    compare("page of 10 keys with a prefix", *series[2:], 1.5)


def measure_pages(store: Store, folder: Path) -> None:
    """Compare reading all keys in pages of 1,000 with plain sqlite3."""
    plain = make_plain(folder / "plain.db")
    ours, theirs = [], []
    for _ in range(3):
        began = time.perf_counter()
        answers = list(read_pages(store))
        ours.append(time.perf_counter() - began)
        keys = [key for answer in answers for key in orjson.loads(answer)["output"]["keys"]]
        began = time.perf_counter()
        rows = sum(len(page) for page in read_plain(plain))
        theirs.append(time.perf_counter() - began)
        assert len(keys) == len(set(keys)) == rows == MANY and keys == sorted(keys)
    ratio = min(ours) / min(theirs)
    print(
        f"{'all keys in 100 pages':<34}{min(ours):8.2f} s  {min(theirs):8.2f} s with sqlite3"
        f"  ratio {ratio:.2f} (≤ 3)"
    )
    plain.close()


def read_pages(store: Store) -> Iterator[bytes]:
    """Yield the answers with all pages of a store."""
    cursor: str | None = ""
    while cursor is not None:
        answer = call(store, "items.list", store="s0", limit=1000, cursor=cursor)
        yield answer
        _, _, end = answer.rpartition(b'"next_cursor":')
        cursor = orjson.loads(end.rstrip(b"}"))


def make_plain(path: Path) -> sqlite3.Connection:
    """Return a plain table of the same items with an index."""
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TABLE items(store TEXT, namespace TEXT, key TEXT, owner TEXT, value TEXT, "
        "in_context INT, encrypted INT, created_at INT, updated_at INT, expires_at INT, "
        "version INT, guid TEXT, UNIQUE(store, namespace, key, owner))"
    )
    texts = list(Texts().make_records(MANY))
    connection.executemany(
        "INSERT INTO items VALUES ('s0', '', ?, 's0', ?, 1, 0, ?, ?, NULL, ?, ?)",
        [
            (state.key, orjson.dumps(text).decode(), state.created_at, state.updated_at, n, guid)
            for n, text in enumerate(texts)
            for state in [make_state(n, "s0", text, None)]
            for guid in [state.guid]
        ],
    )
    connection.commit()
    return connection


def read_plain(connection: sqlite3.Connection) -> Iterator[list[dict[str, Any]]]:
    """Yield pages as lists of objects in JSON, as a simple program would."""
    connection.row_factory = sqlite3.Row
    last = ""
    while rows := connection.execute(
        "SELECT * FROM items WHERE store = 's0' AND namespace = '' AND key > ? ORDER BY key "
        "LIMIT 1000",
        (last,),
    ).fetchall():
        page = [dict(row) | {"value": orjson.loads(row["value"])} for row in rows]
        orjson.dumps(page)
        yield page
        last = rows[-1]["key"]


def measure_search(folder: Path) -> None:
    """Measure hybrid searches in stores of two sizes, and in one of 100 stores."""
    whole: dict[int, float] = {}
    for size in (10_000, MANY):
        for stores in (1, 100):
            embedder = SyntheticVectors()
            questions = QuestionEmbedder(LoadedEmbedder(embedder))  # type: ignore[arg-type]
            meaning = SemanticResources(questions, Pool())
            store = Store(NAME, folder / f"search-{size}-{stores}.db", meaning)
            texts = Texts()
            fill(store, list(texts.make_records(size)), stores=stores)
            embed_all(store, embedder)
            queries = [texts.make_query(3) for _ in range(300)]
            search = partial(call, store, "items.search")
            times_ms(lambda query, search=search: search(query=query), queries[:20])
            taken = times_ms(lambda query, search=search: search(query=query), queries[20:])
            p50, p95 = np.percentile(taken, [50, 95])
            if stores == 1:
                whole[size], bound = p95, {10_000: "≤ 15 ms", MANY: "≤ 60 ms"}[size]
            else:
                bound = f"ratio {p95 / whole[size]:.2f} (≤ 1.3)"
            label = f"search {size:,} in 1 of {stores} stores"
            print(f"{label:<34}p50 {p50:8.2f} ms  p95 {p95:8.2f} ms  {bound}")
            store.close()
            questions.close()


async def measure_expiry(folder: Path, expired: int) -> None:
    """Measure the removal of expired items, and reads at the same time."""
    path = folder / f"{NAME}.db"
    path.parent.mkdir(parents=True)
    store = Store(NAME, path)
    texts = [f"green tea number {n}" for n in range(expired)]
    fill(store, texts, ends=NOW + 1)
    with store.transaction() as tx:
        for n in range(1000):
            tx.records.insert_state(
                make_state(n, "s0", "kept", None)._replace(guid=f"kept-{n}", key=f"kept/{n:03}")
            )
    store.close()
    thread = DatabaseThread("bench", folder, 8)
    idle = await read_while(thread, asyncio.sleep(3.0))
    task = ExpiryTask([NAME], thread, 90, lambda last: None)
    began = time.perf_counter()
    busy = await read_while(thread, task._delete(NAME, LATER))
    rate = expired / (time.perf_counter() - began)
    await thread.close()
    print(f"{expired:,} expired items are removed at {rate:,.0f}/s (≥ 3,000)")
    for share in (50, 95, 99):
        a, b = np.percentile(idle, share), np.percentile(busy, share)
        print(f"  get p{share} idle {a:.2f} ms, meanwhile {b:.2f} ms, ratio {b / a:.2f}")


async def read_while(thread: DatabaseThread, work: Any) -> list[float]:
    """Read about 100 random items a second until the work ends; return the times in ms."""
    chance = np.random.default_rng(4)

    def get(stores: OpenStores) -> None:
        key = f"kept/{chance.integers(0, 1000):03}"
        call(stores.get(NAME), "items.get", store="s0", key=key)

    taken, task = [], asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(float(chance.exponential(0.01)))
        began = time.perf_counter()
        await thread.run(get)
        taken.append((time.perf_counter() - began) * 1000)
    await task
    return taken


def main() -> None:
    """Run the chosen parts, by default all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", action="append", choices=("get", "pages", "search", "expiry"))
    parser.add_argument("--expired", type=int, default=1_000_000)
    given = parser.parse_args()
    parts = given.part or ("get", "pages", "search", "expiry")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if {"get", "pages"} & set(parts):
            few, many = (Store(NAME, folder / f"{size}.db") for size in (FEW, MANY))
            fill(few, list(Texts().make_records(FEW)))
            fill(many, list(Texts().make_records(MANY)))
            if "get" in parts:
                measure_get(few, many)
            if "pages" in parts:
                measure_pages(many, folder)
            few.close()
            many.close()
        if "search" in parts:
            measure_search(folder)
        if "expiry" in parts:
            asyncio.run(measure_expiry(folder, given.expired))


if __name__ == "__main__":
    main()
