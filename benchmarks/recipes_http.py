"""usage: recipes_http.py [--documents N] [--rounds N] [--json FILE]. Measure recipes over HTTP.

1. The recipe of benchmarks/recipes.py next to four consecutive requests that read the same: the
   recipe, key-value pairs, events and documents. Bound: 0.4 of their time (p50).
2. Writes at 100 a second, alone and with ten of these recipes a second. Bound: 1.5 times the p99.
3. Writes one after the other, while recipes run until their limit of 1 s. Bound: no write takes
   longer than 100 ms.

The questions repeat, so that their vectors are known. All requests use open connections.
"""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from itertools import cycle
from multiprocessing import Process
from pathlib import Path
from threading import local
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.recall_latency import Texts
from benchmarks.recipes import KEYS, RECIPE, SHOWN_EVENTS, TOP, WORDS_IN_QUERY
from benchmarks.support.bundle import make_bundle
from benchmarks.support.harness import (
    make_parser,
    start_memrelay_processes,
    stop_all,
    temporary_bus,
    write_result,
)
from benchmarks.support.paced import one_by_one, paced

V1 = "/v1/pipelines/bench"
TYPES = "/persistent-memory/types"
QUERIES, REPEATS, EVENTS = 25, 4, 1_000
WRITES_S, RECIPES_S, SECONDS = 100, 10, 8.0
SINGLE_WRITES = 300
WEIGHTS = {f"payload.{'a.' * 24}f{number}": 0.5 for number in range(32)}
SLOW: dict[str, Any] = {
    "id": "slow",
    "label": "More than 1 s",
    "retrieval": {
        "pipeline": [
            {"type": "log_search", "instance": "log", "limit": EVENTS},
            *[{"type": "score", "source": "log_search", "weights": WEIGHTS, "topK": 1}] * 63,
        ]
    },
}


class Product:
    """A running product, with one connection for each thread."""

    def __init__(self, port: int) -> None:
        self.port, self._local = port, local()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer to a request. Raises ValueError: the request failed."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = HTTPConnection("127.0.0.1", self.port)
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        got = connection.getresponse()
        text = got.read()
        if got.status >= 300:
            raise ValueError(f"{method} {path}: {got.status} {text[:300]!r}")
        return json.loads(text)

    def fill(self, contents: Sequence[str]) -> None:
        """Store documents, pairs, events and recipes, and wait for the vectors."""

        def put(at: int) -> None:
            body = {"collection": "docs", "text": contents[at], "title": f"Document {at}"}
            self.ask("PUT", f"{V1}/documents/doc{at}", body)

        with ThreadPoolExecutor(16) as threads:
            list(threads.map(put, range(len(contents))))
        for key in KEYS:
            pair = {"instanceId": "app", "namespace": "prefs", "key": key, "value": {"max": 5}}
            self.ask("POST", "/kvstore/kv", pair | {"autoCreateInstance": True})
        nested: dict[str, Any] = {"f0": 1}
        for _ in range(24):
            nested = {"a": nested}
        events = [
            {
                "stream_id": "s",
                "event_type": "deploy.ok",
                "payload": {"message": f"run {n}"} | nested,
            }
            for n in range(EVENTS)
        ]
        for first in range(0, EVENTS, 100):
            batch = {"instanceId": "log", "events": events[first : first + 100]}
            self.ask("POST", "/eventlog/events/batch", batch | {"autoCreateInstance": True})
        for recipe in (RECIPE, SLOW):
            self.ask("POST", TYPES, recipe)

    def has_vectors(self) -> bool:
        """Return whether each document has its vector."""
        body = {"collection": "docs", "query": "rivers", "mode": "semantic", "min_score": 0}
        warnings = self.ask("POST", f"{V1}/documents/search", body)["warnings"]
        return "pending_vectors" not in {one["code"] for one in warnings}

    def run(self, query: str) -> Any:
        """Run the recipe of five steps."""
        result = self.ask("POST", f"{TYPES}/five/execute", {"intent": {"query": query}})
        assert result["success"], result
        return result

    def read_one_by_one(self, query: str) -> None:
        """Read what the recipe reads, with a request for each source."""
        self.ask("GET", f"{TYPES}/five")
        self.ask("POST", "/kvstore/query", {"instance": "app", "namespace": "prefs"})
        newest = {"field": "timestamp", "direction": "desc"}
        wanted = {"from": {"instance": "log"}, "orderBy": newest, "limit": SHOWN_EVENTS}
        self.ask("POST", "/eventlog/query", wanted)
        found = {"collection": "docs", "query": query, "top_k": TOP, "min_score": 0}
        self.ask("POST", f"{V1}/documents/search", found)


def compare(product: Product, queries: Sequence[str]) -> dict[str, float]:
    """Return the p50 of the recipe and of the four requests, in ms, taken in turn."""
    recipe, requests, steps = list[float](), list[float](), list[float]()
    for query in queries:
        product.run(query)
    for query in list(queries) * REPEATS:
        started_s = time.perf_counter()
        result = product.run(query)
        between_s = time.perf_counter()
        product.read_one_by_one(query)
        recipe.append(between_s - started_s)
        requests.append(time.perf_counter() - between_s)
        steps.append(result["timing"]["totalMs"])
    found = {
        "recipe": statistics.median(recipe) * 1e3,
        "requests": statistics.median(requests) * 1e3,
    }
    found["ratio"] = found["recipe"] / found["requests"]
    return found | {"steps": statistics.median(steps)}


def make_write() -> bytes:
    """Return the request that creates a record."""
    body = json.dumps({"content": "The meeting with Ada about rivers is at 3 pm"}).encode()
    head = (
        f"POST {V1}/records HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def run_recipes(port: int, queries: Sequence[str], per_s: int) -> None:
    """Run so many recipes per second for a while, in a separate process."""
    product, texts, started_s = Product(port), cycle(queries), time.perf_counter()
    for number in range(int(SECONDS * per_s)):
        time.sleep(max(0.0, started_s + number / per_s - time.perf_counter()))
        product.run(next(texts))


def write_with_recipes(product: Product, queries: Sequence[str], per_s: int) -> float:
    """Return the p99 of writes in ms, while so many recipes per second run."""
    running = Process(target=run_recipes, args=(product.port, queries, per_s))
    if per_s:
        running.start()
    times = asyncio.run(paced(product.port, make_write(), WRITES_S, SECONDS))
    if per_s:
        running.join()
        assert running.exitcode == 0
    return times[int(0.99 * len(times))] * 1e3


def write_during_slow_run(product: Product) -> dict[str, float]:
    """Return the longest write in ms, alone and while recipes run until their limit."""
    alone = one_by_one(product.port, make_write(), SINGLE_WRITES)
    with ThreadPoolExecutor(1) as threads:
        slow = partial(product.ask, "POST", f"{TYPES}/slow/execute", {})
        running = [threads.submit(slow) for _ in range(3)]
        during = list[float]()
        while not all(one.done() for one in running):
            during += one_by_one(product.port, make_write(), 5)
        codes = {one.result()["error"]["code"] for one in running}
    assert codes == {"timeout"}, codes
    return {"alone": alone[-1] * 1e3, "during": max(during) * 1e3, "writes": len(during)}


def measure(product: Product, queries: Sequence[str], rounds: int) -> dict[str, Any]:
    """Return all figures, and print them."""
    found: dict[str, Any] = {"rounds": []}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}, load {os.getloadavg()[0]:.1f}", flush=True)
        one: dict[str, Any] = {"five": compare(product, queries)}
        for name, per_s in (("alone", 0), ("with_recipes", RECIPES_S)):
            one[name] = write_with_recipes(product, queries, per_s)
        one["slow"] = write_during_slow_run(product)
        found["rounds"].append(one)
        print(json.dumps(one), flush=True)
    each = found["rounds"]
    ratio = statistics.median(one["five"]["ratio"] for one in each)
    p99 = statistics.median(one["with_recipes"] / one["alone"] for one in each)
    longest = max(one["slow"]["during"] for one in each)
    print(f"recipe: {ratio:.2f} of four requests (bound 0.4)")
    print(f"writes with {RECIPES_S} recipes a second: p99 {p99:.2f} times (bound 1.5)")
    print(f"longest write during a run of 1 s: {longest:.0f} ms (bound 100)")
    return found


def main() -> None:
    """Fill a product and measure it."""
    parser = make_parser(__doc__, rounds=3)
    parser.add_argument("--documents", type=int, default=10_000)
    options = parser.parse_args()
    texts = Texts()
    contents = list(texts.make_records(options.documents))
    queries = [texts.make_query(WORDS_IN_QUERY) for _ in range(QUERIES)]
    with temporary_bus("recipes") as (folder, bus):
        bundle = make_bundle("bench")
        processes, port = start_memrelay_processes(
            folder, bus.socket_path, bundle, ["worker", "web"]
        )
        try:
            product = Product(port)
            product.fill(contents)
            while not product.has_vectors():
                time.sleep(1)
            write_result(measure(product, queries, options.rounds), options.json)
        finally:
            stop_all(processes)


if __name__ == "__main__":
    main()
