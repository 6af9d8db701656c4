"""The figures of a run as Markdown, and their places in docs/comparison.md."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.comparison.systems import SYSTEMS
from benchmarks.recall.bootstrap import interval
from benchmarks.recall.collection import Collection, Measure
from benchmarks.recall.measures import all_found, any_found, turn_recall

MEASURES: dict[str, Callable[[int], Measure]] = {
    "any": any_found,
    "all": all_found,
    "share": turn_recall,
}
DEPTHS = (5, 10)
# Shown below the name of a data set, and needed before it is published.
LICENSES = {
    "locomo": ("LoCoMo", "CC BY-NC 4.0"),
    "passages": ("SciFact", "CC BY-NC 2.0"),
    "scifact": ("SciFact", "CC BY-NC 2.0"),
    "cranfield": ("Cranfield", "a classic collection without a license text"),
}
MISSING = "not run"
QUIET_LOAD = 1.0
Results = Mapping[str, Any]  # of run.py


def fill(page: str, parts: Mapping[str, str]) -> str:
    """Return the page with new text between `<!-- NAME -->` and `<!-- end NAME -->`.

    Raises ValueError: the page lacks a pair of marks.
    """
    for name, text in parts.items():
        marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        if not marks.search(page):
            raise ValueError(f"the page has no `<!-- {name} -->` and `<!-- end {name} -->`")
        page = marks.sub(lambda match, text=text: f"{match[1]}\n{text}\n\n{match[2]}", page)
    return page


def render(results: Results, collections: Sequence[Collection]) -> dict[str, str]:
    """Return the text of each place of the page."""
    return {
        "run": _describe_run(results),
        "quality": "\n\n".join(
            _quality(results, collection, index) for index, collection in enumerate(collections)
        ),
        "writes": _writes(results),
        "costs": _costs(results),
    }


def score(collection: Collection, found: Sequence[Sequence[str]], measure: Measure) -> list[float]:
    """Return the value of each question. `found` has the ids of each, corpora in order."""
    answers = iter(found)
    return [
        measure(next(answers), question, {})
        for corpus in collection.corpora
        for question in corpus.questions
    ]


def _describe_run(results: Results) -> str:
    machine = results["machine"]
    versions = ", ".join(
        f"{SYSTEMS[name].name} {one['version']}" for name, one in results["installed"].items()
    )
    minutes = results["seconds"] / 60
    is_busy = float(machine["load"]) > QUIET_LOAD
    busy = "\n\nThe machine was busy with other work, so the times are rough." if is_busy else ""
    return (
        f"Measured on {machine['date']} in one run of {minutes:.0f} minutes: "
        f"{machine['processors']} processors ({machine['model']}), {machine['memory_gb']} GB, "
        f"{machine['system']}, Python {machine['python']}, load {machine['load']} at the start.\n\n"
        f"Versions: {versions}.{busy}"
    )


def _quality(results: Results, collection: Collection, index: int) -> str:
    name, license_ = LICENSES.get(collection.name, (collection.name, "unknown"))
    documents = sum(len(corpus.documents) for corpus in collection.corpora)
    questions = sum(len(corpus.questions) for corpus in collection.corpora)
    heading = (
        f"### {name}\n\n{documents:,} documents and {questions:,} questions "
        f"(stores: {len(collection.corpora)}). License of the data: {license_}."
    )
    columns = [f"{measure}@{depth}" for measure in MEASURES for depth in DEPTHS]
    rows = []
    for system, mode, row in _list_rows():
        trial = results["quality"].get(system, [])
        if len(trial) <= index or "failed" in trial[index]:
            rows.append([row, MISSING, *[""] * len(columns)])
            continue
        rows.append([row, *_quality_cells(collection, trial[index], mode, documents)])
    return f"{heading}\n\n{_table(['', *columns, 'p50 ms', 'loaded/s'], rows)}"


def _quality_cells(
    collection: Collection, trial: Mapping[str, Any], mode: str, documents: int
) -> list[str]:
    cells = []
    for make in MEASURES.values():
        for depth in DEPTHS:
            values = score(collection, trial["found"][mode], make(depth))
            cells.append(f"{np.mean(values):.3f}")
    low, high = interval(score(collection, trial["found"][mode], turn_recall(DEPTHS[-1])))
    cells[-1] += f" ({low:.2f} to {high:.2f})"
    p50 = f"{np.median(trial['search_ms'][mode]):.1f}"
    return [*cells, p50, f"{documents / trial['load_s']:,.0f}"]


def _writes(results: Results) -> str:
    rows = []
    for name, system in SYSTEMS.items():
        trial = results["speed"].get(name, {"failed": True})
        if "failed" in trial:
            rows.append([system.name, MISSING, *[""] * 6])
            continue
        syncs = trial["syncs_per_write"]
        rows.append(
            [
                system.name,
                "" if syncs is None else f"{syncs:.1f}",
                *_rate_cells(trial["single_ms"]),
                *(_rate_cells(trial["vector_ms"])[::2] if system.takes_vectors else ["", ""]),
                f"{len(trial['single_ms']) / trial['batch_s']:,.0f}",
            ]
        )
    heading = [
        *("", "syncs per write", "writes/s", "p50 ms", "p99 ms"),
        *("with vectors given: writes/s", "p99 ms", "batches of 100: documents/s"),
    ]
    return _table(heading, rows)


def _rate_cells(milliseconds: Sequence[float]) -> list[str]:
    p50, p99 = np.percentile(milliseconds, [50, 99])
    return [f"{1e3 / np.mean(milliseconds):,.0f}", f"{p50:.1f}", f"{p99:.1f}"]


def _costs(results: Results) -> str:
    rows = []
    for name, system in SYSTEMS.items():
        installed, trial = results["installed"][name], results["speed"].get(name, {"failed": True})
        memory = MISSING if "failed" in trial else f"{trial['rss_bytes'] / 1e6:.0f}"
        if system.embedder == "server" and "failed" not in trial:
            memory += f" + {results['embedder_rss_bytes'] / 1e6:.0f}"
        size = f"{installed['size_bytes'] / 1e6:.0f}"
        rows.append([system.name, size, f"{installed['seconds']:.1f}", memory])
    return _table(["", "installed MB", "install s", "resident MB"], rows)


def _list_rows() -> list[tuple[str, str, str]]:
    return [
        (name, mode, row) for name, system in SYSTEMS.items() for mode, row in system.modes.items()
    ]


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(
        f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in line)}|" for line in lines
    )
