"""Measure facts: recall of a key and fuzzy search, next to sqlite3 with LIKE.

    .venv/bin/python benchmarks/facts.py [--size 1000] [--size 10000] [--size 100000]

Times are of the operation in the worker, from JSON to JSON, without the bus and HTTP. The plain
table has the key and the value of each fact, with an index on the key. Bounds: a recall with
100,000 facts takes at most 1.2 times as long as with 1,000; the p95 of a search is at most 15 ms
with 10,000 facts and 80 ms with 100,000.
"""

import argparse
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.recall_latency import Texts
from memrelay.memory.engine.store import Store
from memrelay.memory.models.agent_memory.facts import SetFact, set_fact
from memrelay.memory.operations import Context, find_operation
from memrelay.memory.records.ids import derive_guid
from memrelay.worker.run.calls import answer_call

NAME, NOW = "instances/be9c4001/memories", 1_700_000_000_000
SIZES = (1_000, 10_000, 100_000)
BATCH, RECALLS, SEARCHES, LIMIT = 1_000, 3_000, 200, 10
RESULT_BYTES = 8 << 20
WORDS_IN_KEY, WORDS_IN_VALUE = 3, 6
# Of a query: one in this many has parts of words.
PARTS_EACH = 4
INSERT = "INSERT INTO facts VALUES (?, ?, 1.0, ?)"
LIKE = (
    "SELECT key, value FROM facts WHERE key LIKE ?1 OR value LIKE ?1 "
    "ORDER BY confidence DESC, updated_at DESC LIMIT ?2"
)
_numbers = count(1)


def make_facts(size: int) -> list[tuple[str, str]]:
    """Return (key, value) of each fact, in words of a natural distribution."""
    facts = []
    for n, text in enumerate(Texts().make_records(size)):
        words = text.split()
        key = "_".join((*words[:WORDS_IN_KEY], str(n)))
        facts.append((key, " ".join(words[WORDS_IN_KEY : WORDS_IN_KEY + WORDS_IN_VALUE])))
    return facts


def make_queries(facts: Sequence[tuple[str, str]]) -> list[str]:
    """Return queries of two following words of a key or a value, some with parts of words."""
    chance, queries = random.Random(1), list[str]()
    for n in range(SEARCHES):
        words = chance.choice(facts)[n % 2].replace("_", " ").split()
        at = chance.randrange(max(len(words) - 2, 1))
        one, other = (*words[at : at + 2], "")[:2]
        queries.append(f"{one[1:]} {other[:-1]}" if n % PARTS_EACH == 0 else f"{one} {other}")
    return queries


def make_context() -> Context:
    """Return the context of a call."""
    return Context(
        NOW, "bench", RESULT_BYTES, lambda: derive_guid("be9c4001", f"{next(_numbers)}-0", "b", 1)
    )


def fill(store: Store, facts: Sequence[tuple[str, str]]) -> None:
    """Write the facts."""
    context = make_context()
    for first in range(0, len(facts), BATCH):
        with store.transaction() as tx:
            tx.records.set_actor(NOW, "bench")
            for key, value in facts[first : first + BATCH]:
                set_fact(tx, SetFact(key, value), context)


def fill_plain(path: Path, facts: Sequence[tuple[str, str]]) -> sqlite3.Connection:
    """Write the facts to a plain table."""
    plain = sqlite3.connect(path)
    plain.execute("CREATE TABLE facts(key TEXT UNIQUE, value TEXT, confidence REAL, updated_at)")
    plain.executemany(INSERT, [(*fact, n) for n, fact in enumerate(facts)])
    plain.commit()
    return plain


def call(tx: Store, name: str, /, **given: Any) -> bytes:
    """Run an operation from JSON to JSON, as the worker does."""
    operation = find_operation(name)
    assert operation is not None
    return answer_call(operation, orjson.dumps(given), tx, make_context())


def times_ms(call_one: Callable[[str], object], arguments: Sequence[str]) -> list[float]:
    """Return the time of each call."""
    taken = []
    for argument in arguments:
        began = time.perf_counter()
        call_one(argument)
        taken.append(1000 * (time.perf_counter() - began))
    return taken


def p95(times: Sequence[float]) -> float:
    """Return the 95th percentile."""
    return quantiles(times, n=20)[-1]


def measure(folder: Path, size: int) -> None:
    """Measure a store with that many facts."""
    facts = make_facts(size)
    store = Store(NAME, folder / f"{size}.db")
    began = time.perf_counter()
    fill(store, facts)
    rate = size / (time.perf_counter() - began)
    plain = fill_plain(folder / f"{size}-plain.db", facts)
    chance, queries = random.Random(2), make_queries(facts)
    keys = [chance.choice(facts)[0] for _ in range(RECALLS)]
    with store.transaction() as tx:
        recalls = times_ms(lambda key: call(tx, "facts.recall", key=key), keys)
        searches = times_ms(
            lambda query: call(tx, "facts.search", query=query, limit=LIMIT), queries
        )
    likes = times_ms(
        lambda query: plain.execute(LIKE, (f"%{query.replace(' ', '%')}%", LIMIT)).fetchall(),
        queries,
    )
    store.close()
    plain.close()
    print(
        f"{size:>7} facts: set {rate:,.0f}/s, recall median {median(recalls):.3f} ms, search "
        f"median {median(searches):.1f} ms, p95 {p95(searches):.1f} ms; sqlite3 LIKE median "
        f"{median(likes):.1f} ms, p95 {p95(likes):.1f} ms"
    )


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", action="append", type=int)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for size in given.size or SIZES:
            measure(Path(name), size)


if __name__ == "__main__":
    main()
