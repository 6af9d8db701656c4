"""usage: recipe_steps.py [--items N] [--runs N]. Measure what a step of a recipe costs per item.

Runs each step type that reads no source of data, on lists of so many items in process. Prints its
median time, the bound of 20 µs and 3 µs per item, and whether it is kept.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from memrelay.memory.models.recipes.execution.conditions import parse_condition
from memrelay.memory.models.recipes.step import StepCall, all_step_types
from memrelay.memory.operations import Context

STEPS: dict[str, dict[str, Any]] = {
    "derive_query": {"source": "items"},
    "rewrite_query": {},
    "filter": {"field": "payload.ms", "operator": "gte", "value": 3},
    "deduplicate": {},
    "group_by": {"field": "eventType"},
    "reduce_latest": {"entityField": "streamId"},
    "merge": {"sources": ["items", "items"], "strategy": "unique"},
    "rank": {"strategy": "recency"},
    "score": {"weights": {"sequence": 1}},
    "summarize": {},
    "format": {},
    "annotate": {"label": "log"},
    "conditional": {"condition": "results.count >= 5"},
    "early_exit": {"condition": "results.items.length == 0"},
    "custom": {"handler": "pick", "args": {"fields": ["text"]}},
}


def make_items(count: int) -> list[dict[str, Any]]:
    """Return items as log_search returns them."""
    return [
        {
            "id": f"ev_{n}",
            "text": f"run {n} ended",
            "timestamp": f"2026-11-25T10:{n // 60 % 60:02}:{n % 60:02}Z",
            "streamId": f"s{n % 7}",
            "eventType": "deploy.ok",
            "sequence": n,
            "payload": {"ms": n % 9},
        }
        for n in range(count)
    ]


def measure(name: str, items: list[dict[str, Any]], runs: int) -> float:
    """Return the median time of a step in µs."""
    kind = all_step_types()[name]
    params = kind.adapter.validate_python(STEPS[name])
    context: Any = Context(1_700_000_000_000, "bench", 8 << 20, str)
    shared = {"intent": {"query": "last"}, "variables": {}, "memoryId": "r", "memory": {}}
    condition = STEPS[name].get("condition")
    compiled = parse_condition(condition) if condition else None
    transaction: Any = None
    times = []
    for _ in range(runs):
        call = StepCall(
            transaction, context, name, items, "last", {"items": items}, shared, "items"
        )
        call.source_type, call.condition = "log_search", compiled
        began = time.perf_counter()
        kind.run(params, call)
        times.append((time.perf_counter() - began) * 1e6)
    return statistics.median(times)


def main() -> None:
    """Measure all step types."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="+", default=[0, 1, 20, 400])
    parser.add_argument("--runs", type=int, default=100)
    given = parser.parse_args()
    for name in STEPS:
        for count in given.items:
            # A merge reads its items twice.
            read = count * len(STEPS[name].get("sources", [""]))
            bound = 20 + 3 * read
            taken = measure(name, make_items(count), given.runs)
            kept = "kept" if taken <= bound else "MISSED"
            print(f"{name:<14}{count:5} items {taken:9.1f} µs, bound {bound:6} µs: {kept}")


if __name__ == "__main__":
    main()
