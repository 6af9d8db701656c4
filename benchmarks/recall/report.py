"""Results as JSON, and as Markdown tables of that JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.recall.bootstrap import interval
from benchmarks.recall.collection import Collection
from benchmarks.recall.trial import Trial

ALL = "all"
Trials = Mapping[str, Trial]  # system name -> trial
Values = Mapping[str, Sequence[float]]  # measure -> value of every question
Groups = Mapping[str, Sequence[int]]  # group -> positions of its questions
Figures = dict[str, dict[str, Any]]  # group -> number of questions, and measure -> figure
Json = dict[str, Any]
# heading, key, scale, format
SPEED = (
    ("documents/s", "documents_per_s", 1, ",.0f"),
    ("p50 ms", "p50_ms", 1, ".1f"),
    ("p95 ms", "p95_ms", 1, ".1f"),
    ("peak MB", "peak_bytes", 1e-6, ".0f"),
    ("nonsense answered", "nonsense_answered", 1, ".1%"),
    ("nothing found", "nothing_found", 1, ".1%"),
)


def as_json(
    collection: Collection,
    trials: Trials,
    base: str = "",
    earlier: Json | None = None,
    variant: str = "",
) -> Json:
    """Return the figures with their intervals, the costs of each system, the value of every
    question, and the SHA-256 of each data file.

    A difference is that of a system to the base in this run, or to itself in the earlier run. A
    system that the earlier run lacks is compared with the base there.
    """
    groups = _group_questions(next(iter(trials.values())).categories)
    values = {name: trial.values for name, trial in trials.items()}
    before = {name: one["values"] for name, one in (earlier or {"systems": {}})["systems"].items()}
    return {
        "collection": collection.name,
        "variant": variant,
        "sha256": dict(collection.digests),
        "documents": sum(len(corpus.documents) for corpus in collection.corpora),
        "stores": len(collection.corpora),
        "columns": [list(collection.measures), list(collection.hits)],
        "systems": {
            name: {"figures": _make_figures(trial.values, groups)} | _describe(trial)
            for name, trial in trials.items()
        },
        "base": base,
        "to_base": {
            name: _make_figures(_subtract(one, values[base]), groups)
            for name, one in values.items()
            if base in values and name != base
        },
        "to_earlier": {
            name: _make_figures(one, groups)
            for name, one in _subtract_earlier(values, before, base)
        },
    }


def tables(found: Json) -> str:
    """Return Markdown tables of a collection: one or two per group of questions, the same for the
    differences, and one for speed."""
    figures = {name: one["figures"] for name, one in found["systems"].items()}
    questions = next(iter(figures.values()))[ALL]["questions"]
    parts = [
        f"## {found['collection']}: {found['documents']} documents in {found['stores']} store(s), "
        f"{questions} questions",
        *_list_tables(found, figures, _format_cell),
        _speed_table(found["systems"]),
    ]
    if found["to_base"]:
        parts.append(f"### Difference to {found['base']}")
        parts += _list_tables(found, found["to_base"], _format_difference)
    if found["to_earlier"]:
        parts.append("### Difference to the earlier run")
        parts += _list_tables(found, found["to_earlier"], _format_difference)
    return "\n\n".join(parts)


def _describe(trial: Trial) -> Json:
    p50, p95 = np.percentile(trial.search_s, [50, 95]) * 1e3
    return {
        "documents": trial.documents,
        "documents_per_s": trial.documents / trial.ingest_s,
        "p50_ms": float(p50),
        "p95_ms": float(p95),
        "peak_bytes": trial.peak_bytes,
        "nonsense_answered": trial.nonsense_share,
        "nothing_found": trial.empty_share,
        "values": trial.values,
    }


def _group_questions(categories: Sequence[str]) -> Groups:
    """Return the positions of all questions and of each category."""
    groups = {ALL: list(range(len(categories)))}
    for name in sorted(set(categories) - {""}):
        groups[name] = [place for place, category in enumerate(categories) if category == name]
    return groups


def _subtract(values: Values, base: Values) -> Values:
    """Return the difference of each question, for the measures of both."""
    return {
        measure: [one - other for one, other in zip(values[measure], base[measure], strict=True)]
        for measure in values
        if measure in base
    }


def _subtract_earlier(
    values: Mapping[str, Values], before: Mapping[str, Values], base: str
) -> Iterator[tuple[str, Values]]:
    """Yield the name of a row and the differences to the earlier run."""
    for name, one in values.items():
        if name in before:
            yield name, _subtract(one, before[name])
        elif base in before:
            yield f"{name} to {base}", _subtract(one, before[base])


def _make_figures(values: Values, groups: Groups) -> Figures:
    return {
        group: {"questions": len(places)}
        | {measure: _make_figure(one, places) for measure, one in values.items()}
        for group, places in groups.items()
    }


def _make_figure(values: Sequence[float], places: Sequence[int]) -> dict[str, float]:
    chosen = [values[place] for place in places]
    low, high = interval(chosen)
    return {"mean": float(np.mean(chosen)), "low": low, "high": high}


def _list_tables(found: Json, figures: Mapping[str, Figures], format_cell: Any) -> Iterator[str]:
    """Yield a table for each group of questions and for each list of columns."""
    for group, one in next(iter(figures.values())).items():
        for columns in filter(None, found["columns"]):
            rows = [
                [name, *(format_cell(groups[group].get(column)) for column in columns)]
                for name, groups in figures.items()
            ]
            yield _format_table([f"{group} ({one['questions']})", *columns], rows)


def _format_cell(figure: Mapping[str, float] | None) -> str:
    if figure is None:
        return ""
    return f"{figure['mean']:.3f} ({figure['low']:.2f} to {figure['high']:.2f})"


def _format_difference(figure: Mapping[str, float] | None) -> str:
    if figure is None:
        return ""
    return f"{figure['mean']:+.3f} ({figure['low']:.3f} to {figure['high']:.3f})"


def _speed_table(systems: Mapping[str, Json]) -> str:
    rows = [
        [name, *(format(one[key] * scale, form) for _, key, scale, form in SPEED)]
        for name, one in systems.items()
    ]
    return _format_table(["speed", *(heading for heading, *_ in SPEED)], rows)


def _format_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
