"""usage: run.py --data FOLDER [--json FILE] [--only SYSTEM ...]. What `make bench-recall
DATA=FOLDER` runs.

Scores Memrelay beside plain FTS5, the built-in embedder and the rank fusion of both, on the data
sets in a folder: LoCoMo,
Cranfield, and what is in BEIR's layout. Each system has a process of its own. The tables are
printed, and everything is in
benchmarks/results/recall.json. docs/search-quality.md says how to read them.
"""

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
sys.path.insert(0, str(CHECKOUT))

from benchmarks.recall.collection import BadData  # noqa: E402  the checkout is no installed package here
from benchmarks.recall.data_sets import collections  # noqa: E402
from benchmarks.recall.report import as_json, tables  # noqa: E402
from benchmarks.recall.systems import SYSTEMS  # noqa: E402
from benchmarks.recall.trial import Trial, run  # noqa: E402

WANTED = (
    "make bench-recall DATA=FOLDER: name the folder of the data to score, which is no part of the project; it holds "
    "LoCoMo, Cranfield or a data set in BEIR's layout, or folders of such (docs/search-quality.md)"
)


def trial(folder: Path, place: int, system: str) -> Trial:
    """What a process does: the collection is read anew, since its measures cannot be sent."""
    return run(collections(folder)[place], SYSTEMS[system])


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", type=Path, default=HERE.parent / "results" / "recall.json")
    parser.add_argument("--only", choices=SYSTEMS, nargs="+", default=list(SYSTEMS))
    given = parser.parse_args()
    if given.data is None:
        print(WANTED, file=sys.stderr)
        return 2
    try:
        found = collections(given.data)
    except BadData as error:
        print(error, file=sys.stderr)
        return 2
    results = []
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        for place, collection in enumerate(found):
            trials = {
                name: processes.submit(trial, given.data, place, name).result()
                for name in given.only
            }
            print(tables(collection, trials), end="\n\n", flush=True)
            results.append(as_json(collection, trials))
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
