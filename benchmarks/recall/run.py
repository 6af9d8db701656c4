"""usage: run.py --data FOLDER [--json FILE] [--only SYSTEM ...] [--variant NAME]. The program
behind `make bench-recall`.

Scores Memrelay, plain FTS5, the built-in embedders, and the rank fusion of FTS5 and MiniLM on the
data sets in a folder: LoCoMo, Cranfield and the BEIR layout. Each system runs in its own process.
The command prints tables and writes all figures to benchmarks/results/recall.json. A variant asks
the questions in another form (benchmarks/recall/queries/variants.py). docs/recall.md explains the
figures.
"""

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.recall.collection import BadData
from benchmarks.recall.data_sets import collections
from benchmarks.recall.queries.variants import VARIANTS, change
from benchmarks.recall.report import as_json, tables
from benchmarks.recall.systems import SYSTEMS
from benchmarks.recall.trial import Trial, run

HERE = Path(__file__).resolve().parent
NO_DATA = (
    "no data: pass a folder with LoCoMo, Cranfield or a data set in BEIR's layout, or with folders "
    "of them: make bench-recall DATA=FOLDER (docs/recall.md)"
)


def run_trial(folder: Path, place: int, system: str, variant: str = "") -> Trial:
    """Run one trial in a separate process. Load the collection there, since its measures cannot be
    pickled."""
    return run(change(collections(folder)[place], variant), SYSTEMS[system])


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", type=Path, default=HERE.parent / "results" / "recall.json")
    parser.add_argument("--only", choices=SYSTEMS, nargs="+", default=list(SYSTEMS))
    parser.add_argument("--variant", choices=VARIANTS, default="")
    given = parser.parse_args()
    if given.data is None:
        print(NO_DATA, file=sys.stderr)
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
                name: processes.submit(run_trial, given.data, place, name, given.variant).result()
                for name in given.only
            }
            print(tables(collection, trials), end="\n\n", flush=True)
            results.append(as_json(collection, trials))
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
