"""The slices of a pass of consolidation: `python -m benchmarks.consolidation [ENTRIES]`.

Each slice is one transaction, during which other messages wait. The entries have no vectors.
"""

import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from memrelay.memory.engine.store import Store
from memrelay.memory.models.consolidation.consolidating import Budget, Progress, Rules, run_slice
from memrelay.memory.models.consolidation.table import ConsolidationTable, Pass
from memrelay.memory.operations import Context
from tests.memory.builders import NOW, PLENTY, make_guid, make_store, perform

TOGETHER, COMPARED = 5_000, 1_000
ALIAS = "tidy"
STARTS = ("ba", "be", "bi", "bo", "bu", "ca", "ce", "ci", "co", "cu", "da", "de", "di", "do", "du")
WORDS = [a + b for a in STARTS for b in ("lan", "ler", "mon", "tar", "vel", "zen", "rik", "sop")]


def make_fact(number: int) -> str:
    """Return a fact, which resembles others."""
    name, word, other = (random.choice(WORDS) for _ in range(3))
    return random.choice(
        (
            f"{name.title()} works on the {word} service with {other}",
            f"The {word} of {name.title()} runs on port {number}",
            f"{name.title()} prefers {word} over {other}",
        )
    )


def fill(store: Store, count: int) -> None:
    """Write the facts into 20 memories."""
    for start in range(0, count, TOGETHER):
        with store.transaction() as tx:
            for number in range(start, min(count, start + TOGETHER)):
                given = {"memory": f"m{number % 20}", "content": make_fact(number)}
                perform(tx, "entries.create", **given, mode="create")


def run(store: Store, label: str) -> None:
    """Run slices until a run is over, and print their times."""
    rules = Rules(ALIAS, "", ("duplicates", "contradictions", "stale"), 365, 0.95)
    progress, times, goes_on = Progress(), list[float](), True
    while goes_on:
        start = time.perf_counter()
        with store.transaction() as tx:
            tx.records.set_actor(NOW, ALIAS)
            context = Context(NOW, ALIAS, PLENTY, make_guid)
            goes_on = run_slice(tx, rules, progress, Budget(100_000, COMPARED), context)
        times.append(time.perf_counter() - start)
    times.sort()
    median, p95, most = (times[int((len(times) - 1) * part)] * 1000 for part in (0.5, 0.95, 1))
    print(
        f"{label}: {progress.compared} comparisons in {len(times)} slices and {sum(times):.2f} s; "
        f"a slice {median:.1f} ms, p95 {p95:.1f} ms, at most {most:.0f} ms"
    )


def main() -> None:
    """Measure a run of comparisons, and a pass over unchanged entries."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    random.seed(1)
    with TemporaryDirectory() as root:
        store = make_store(Path(root))
        fill(store, count)
        run(store, f"{count} entries, first run")
        with store.transaction() as tx:
            last = tx.records.versions.last_change
            tx.table(ConsolidationTable).put_pass(ALIAS, Pass(0, last, 0))
        run(store, "unchanged entries")
        store.close()


if __name__ == "__main__":
    main()
