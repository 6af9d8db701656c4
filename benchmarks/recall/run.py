"""usage: run.py --data FOLDER [--json FILE] [--only SYSTEM ...] [--variant NAME] [--base SYSTEM]
[--earlier FILE] [--commit COMMIT]. The program behind `make bench-recall`.

Scores Memrelay and other systems on the data sets in a folder: LoCoMo, Cranfield and the BEIR
layout. Each system runs in its own process. The command prints tables, also of the differences to
the base, and writes all figures and the value of every question to benchmarks/results/recall.json.
A variant asks the questions in another form (benchmarks/recall/queries/variants.py).

To compare with an earlier commit, measure that commit first, then pass its figures:

    run.py --data FOLDER --commit COMMIT --json build/earlier.json
    run.py --data FOLDER --earlier build/earlier.json

docs/recall.md explains the figures.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.recall.collection import BadData, Collection
from benchmarks.recall.data_sets import collections
from benchmarks.recall.process import Failed, NotRun, checkout, run_trial
from benchmarks.recall.queries.variants import VARIANTS, change
from benchmarks.recall.report import as_json, tables
from benchmarks.recall.systems import SYSTEMS
from benchmarks.recall.trial import Trial

HERE = Path(__file__).resolve().parent
NO_DATA = (
    "no data: pass a folder with LoCoMo, Cranfield or a data set in BEIR's layout, or with folders "
    "of them: make bench-recall DATA=FOLDER (docs/recall.md)"
)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", type=Path, default=HERE.parent / "results" / "recall.json")
    parser.add_argument("--only", choices=SYSTEMS, nargs="+", default=list(SYSTEMS))
    parser.add_argument("--variant", choices=VARIANTS, default="")
    parser.add_argument("--base", choices=SYSTEMS, default="Memrelay")
    parser.add_argument("--earlier", type=Path, help="figures of an earlier run")
    parser.add_argument("--commit", help="measure the systems of this commit")
    given = parser.parse_args()
    if given.data is None:
        print(NO_DATA, file=sys.stderr)
        return 2
    try:
        found = [change(one, given.variant) for one in collections(given.data)]
        earlier = read_earlier(given.earlier, found, given.variant)
    except BadData as error:
        print(error, file=sys.stderr)
        return 2
    results = []
    try:
        with checkout(given.commit) as code:
            for collection in found:
                trials = run_all(code, collection, given.only)
                before = earlier.get(collection.name)
                figures = as_json(collection, trials, given.base, before, given.variant)
                print(tables(figures), end="\n\n", flush=True)
                results.append(figures)
    except Failed as error:
        print(error, file=sys.stderr)
        return 1
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(results) + "\n")
    return 0


def read_earlier(
    file: Path | None, found: Sequence[Collection], variant: str
) -> Mapping[str, dict[str, Any]]:
    """Return the figures of an earlier run by collection. Raises BadData: if they are not of the
    same questions."""
    if file is None:
        return {}
    try:
        earlier = {one["collection"]: one for one in json.loads(file.read_bytes())}
        for one in found:
            before = earlier[one.name]
            if (before["sha256"], before["variant"]) != (one.digests, variant):
                raise ValueError(f"{one.name} has other files or another variant")
    except (OSError, KeyError, ValueError) as error:
        raise BadData(
            f"{file}: not an earlier run with the same --data and --variant: {error!r}"
        ) from error
    return earlier


def run_all(code: Path, collection: Collection, systems: Sequence[str]) -> dict[str, Trial]:
    """Return the trials of the systems that are there. Raises Failed: if there is none, or if one
    fails."""
    trials = {}
    for system in systems:
        try:
            trials[system] = run_trial(code, collection, system)
        except NotRun as error:
            print(error, file=sys.stderr, flush=True)
    if not trials:
        raise Failed("no system ran")
    return trials


if __name__ == "__main__":
    sys.exit(main())
