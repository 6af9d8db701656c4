"""Results as Markdown tables and as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.recall.bootstrap import interval
from benchmarks.recall.collection import Collection
from benchmarks.recall.trial import Trial

ALL = "all"
Trials = Mapping[str, Trial]  # system name -> trial


def tables(collection: Collection, trials: Trials) -> str:
    """Return Markdown tables: one per group of questions, and one for speed."""
    groups = _group_questions(next(iter(trials.values())).categories)
    documents = sum(len(corpus.documents) for corpus in collection.corpora)
    parts = [
        f"## {collection.name}: {documents} documents in {len(collection.corpora)} store(s), "
        f"{len(groups[ALL])} questions"
    ]
    for group, places in groups.items():
        heading = f"{group} ({len(places)})"
        rows = [
            [
                name,
                *(_format_cell(trial.values[measure], places) for measure in collection.measures),
            ]
            for name, trial in trials.items()
        ]
        parts.append(_format_table([heading, *collection.measures], rows))
    parts.append(_speed_table(trials))
    return "\n\n".join(parts)


def as_json(collection: Collection, trials: Trials) -> dict[str, Any]:
    """Return the means with their intervals, the costs of each system, and the SHA-256 of each data
    file."""
    return {
        "collection": collection.name,
        "sha256": dict(collection.digests),
        "systems": {name: _describe(collection, trial) for name, trial in trials.items()},
    }


def _speed_table(trials: Trials) -> str:
    rows = [
        [
            name,
            f"{trial.documents / trial.ingest_s:,.0f}",
            *(f"{ms:.1f}" for ms in _milliseconds(trial)),
            f"{trial.peak_bytes / 1e6:.0f}",
            f"{trial.nonsense_share:.1%}",
            f"{trial.empty_share:.1%}",
        ]
        for name, trial in trials.items()
    ]
    heading = [
        "speed",
        "documents/s",
        "p50 ms",
        "p95 ms",
        "peak MB",
        "nonsense answered",
        "nothing found",
    ]
    return _format_table(heading, rows)


def _describe(collection: Collection, trial: Trial) -> dict[str, Any]:
    p50, p95 = _milliseconds(trial)
    figures = {
        group: {"questions": len(places)}
        | {measure: _make_figure(trial.values[measure], places) for measure in collection.measures}
        for group, places in _group_questions(trial.categories).items()
    }
    return {
        "figures": figures,
        "documents": trial.documents,
        "documents_per_s": trial.documents / trial.ingest_s,
        "p50_ms": p50,
        "p95_ms": p95,
        "peak_bytes": trial.peak_bytes,
        "nonsense_answered": trial.nonsense_share,
        "nothing_found": trial.empty_share,
    }


def _group_questions(categories: Sequence[str]) -> dict[str, list[int]]:
    """Return the positions of all questions and of each category."""
    groups = {ALL: list(range(len(categories)))}
    for name in sorted(set(categories) - {""}):
        groups[name] = [place for place, category in enumerate(categories) if category == name]
    return groups


def _make_figure(values: Sequence[float], places: Sequence[int]) -> dict[str, float]:
    chosen = [values[place] for place in places]
    low, high = interval(chosen)
    return {"mean": float(np.mean(chosen)), "low": low, "high": high}


def _format_cell(values: Sequence[float], places: Sequence[int]) -> str:
    figure = _make_figure(values, places)
    return f"{figure['mean']:.3f} ({figure['low']:.2f} to {figure['high']:.2f})"


def _milliseconds(trial: Trial) -> tuple[float, float]:
    p50, p95 = np.percentile(trial.search_s, [50, 95]) * 1e3
    return float(p50), float(p95)


def _format_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
