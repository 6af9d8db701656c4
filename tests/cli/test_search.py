"""`memrelay search`: one line per hit, and explanations of scores."""

from typing import Any

import pytest

from memrelay.cli.terminal.readable import explanation_lines
from tests.support.program import Program
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def filled(program: Program) -> Program:
    for text in (
        "The meeting is at 3pm",
        "Ann painted a sunrise over the lake",
        "the quarterly figures are due",
    ):
        program.run("say", "memory_test", f"/write {text}")
    return program


def test_each_hit_is_a_line(filled: Program) -> None:
    heading, line = filled.run("search", "memory_test", "meeting").out.splitlines()

    assert heading.split() == ["SCORE", "CREATED", "KIND", "GUID", "CONTENT"]
    assert line.endswith("…  The meeting is at 3pm") and "  observation  " in line
    assert (
        filled.run("search", "memory_test", "nowhere").out
        == "Nothing found (unknown): no record has 'nowhere'.\n"
    )


def test_the_explanation_shows_the_parts_of_each_score(filled: Program) -> None:
    words = "search", "memory_test", "painting the meetng lake", "--mode", "hybrid", "--explain"
    # On a busy machine, the first search ends before the model is loaded.
    lines = wait_for(lambda: filled.run(*words).out, "a search has an answer").splitlines()

    assert lines[0] == "query     painting the meetng lake (hybrid, english; 3 records)"
    assert "          meetng: in no record; searched as meeting" in lines
    first = lines.index("") + 2
    assert lines[first - 1].split()[:4] == ["#", "SCORE", "=", "TEXT"]
    rank, score, share, *rest = lines[first].split()
    assert (rank, score) == ("1", share)
    assert "lake, painting" in lines[first] and rest[-1] == "lake"


def test_an_empty_result_has_a_reason_and_a_suggestion(filled: Program) -> None:
    ended = filled.run("search", "memory_test", "quartrly", "--explain", "--limit", "1")

    assert ended.out.splitlines()[-1] == (
        "Nothing found (unknown): no record has 'quartrly'; 'quarterly' is nearest to 'quartrly'."
    )


def test_json_is_the_output_of_the_operation(filled: Program) -> None:
    (mine,) = filled.run("search", "memory_test", "meeting", "--explain", "--json").lines
    (theirs,) = filled.run(
        "records", "search", "memory_test", "meeting", "--explain", "--limit", "10"
    ).lines

    assert mine == theirs


def test_an_unknown_mode_and_a_store_of_another_pipeline_are_rejected(filled: Program) -> None:
    assert (
        "mode: must be 'fts', 'hybrid' or 'semantic'"
        in filled.run("search", "memory_test", "x", "--mode", "best").err
    )
    assert (
        "names no store"
        in filled.run("search", "memory_test", "x", "--store", "instances/other/x").err
    )


def make_explanation() -> dict[str, Any]:
    """Return an explanation with a missing arm and matches near the hit."""
    arms = [
        {"arm": "text", "rank": None, "raw": 0.0, "score": 0.0, "weight": 0.65, "share": 0.0},
        {"arm": "vector", "rank": 2, "raw": 0.5, "score": 0.5, "weight": 0.35, "share": 0.175},
    ]
    hit = {
        "guid": "g",
        "rank": 1,
        "score": 0.21,
        "arms": arms,
        "factors": {"time": 1.2},
        "speaker": True,
        "read": 0.345,
        "signals": {"near": 0.5, "question": -0.25},
        "terms": [{"term": "tea", "where": "window"}, {"term": "cup", "where": "segment"}],
    }
    run = {
        "text": "tea cup -x",
        "mode": "hybrid",
        "language": "english",
        "match": "",
        "compared": "tea cup",
        "excluded": ['"x"'],
    }
    term = {
        "term": "tea",
        "state": "too common",
        "records": 9,
        "spellings": ["tea", "teas"],
        "suggestion": None,
    }
    return {
        "query": run,
        "filters": {"kinds": ["note"]},
        "records": 9,
        "terms": [term],
        "coverage": 1.0,
        "least_coverage": 0.4,
        "notes": [],
        "nothing": None,
        "hits": [hit],
    }


def test_the_explanation_shows_missing_arms_and_matches_nearby() -> None:
    output = {"items": [{"record": {"content": "x" * 100}}], "explanation": make_explanation()}

    text = "\n".join(explanation_lines(output))

    for part in (
        "compared  tea cup",
        'excluded  "x"',
        "filters   kinds note",
        "tea: 9 records (tea, teas); too common, ignored",
        "0.000 (-, 0.00 is 0.000, x 0.65)",
        "0.175 (#2, 0.50 is 0.500, x 0.35)",
        "time 1.20",
        "tea (in a neighbor), cup (in its thread), the speaker, ",
        "reranked (0.345: near +0.50 question -0.25)",
        "x" * 70 + "…",
    ):
        assert part in text
