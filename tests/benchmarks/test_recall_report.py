"""The figures and differences of a run, and their tables."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recall.collection import BadData, Collection, Corpus, Document, Question
from benchmarks.recall.measures import any_found, turn_recall
from benchmarks.recall.report import as_json, tables
from benchmarks.recall.run import read_earlier
from benchmarks.recall.trial import Trial

GROUPS = ("one", "one", "two", "two")


def make_trial(*values: float) -> Trial:
    hits = [float(value > 0) for value in values]
    measured = {"turn@5": values, "any turn@5": hits}
    return Trial(GROUPS, measured, 4, 2.0, [0.001] * 4, 0.5, 0.0, 7_000_000)


def make_collection(digest: str = "00") -> Collection:
    questions = [Question("?", {"a": 1.0, "b": 1.0}, group) for group in GROUPS]
    corpus = Corpus([Document("a", "tea"), Document("b", "milk")], questions)
    measures, hits = {"turn@5": turn_recall(5)}, {"any turn@5": any_found(5)}
    return Collection("tiny", [corpus], measures, {"tiny.json": digest}, hits)


def report(*values: float, **more: Any) -> dict[str, Any]:
    trials = {"base": make_trial(0.0, 0.5, 0.5, 0.5), "other": make_trial(*values)}
    return as_json(make_collection(), trials, "base", **more)


def test_a_difference_is_that_of_the_same_question_with_its_interval() -> None:
    found = report(0.5, 1.0, 1.0, 0.5)["to_base"]

    assert list(found) == ["other"]
    assert found["other"]["one"]["turn@5"] == {"mean": 0.5, "low": 0.5, "high": 0.5}
    assert found["other"]["two"]["questions"] == 2
    assert found["other"]["all"]["turn@5"]["mean"] == 0.375
    assert 0 < found["other"]["all"]["turn@5"]["low"] < 0.375
    assert found["other"]["all"]["any turn@5"]["mean"] == 0.25


def test_an_earlier_run_is_compared_system_by_system() -> None:
    earlier = as_json(make_collection(), {"other": make_trial(0.0, 0.0, 0.0, 0.0)})
    del earlier["systems"]["other"]["values"]["any turn@5"]

    found = report(0.5, 1.0, 1.0, 0.5, earlier=json.loads(json.dumps(earlier)))

    assert list(found["to_earlier"]) == ["other"]
    assert found["to_earlier"]["other"]["all"]["turn@5"]["mean"] == 0.75
    assert "any turn@5" not in found["to_earlier"]["other"]["all"]
    assert "| other |  |" in tables(found)


def test_a_new_system_is_compared_with_the_base_of_the_earlier_run() -> None:
    earlier = as_json(make_collection(), {"base": make_trial(0.0, 0.0, 0.0, 0.0)})

    found = report(0.5, 1.0, 1.0, 0.5, earlier=earlier)["to_earlier"]

    assert list(found) == ["base", "other to base"]
    assert found["base"]["all"]["turn@5"]["mean"] == 0.375
    assert found["other to base"]["all"]["turn@5"]["mean"] == 0.75


def test_a_base_that_did_not_run_has_no_differences() -> None:
    found = as_json(make_collection(), {"other": make_trial(0.0, 0.5, 0.5, 1.0)}, "base")

    assert found["to_base"] == found["to_earlier"] == {}
    assert "Difference" not in tables(found)


def test_each_group_has_a_table_of_shares_and_one_of_hits_also_for_differences() -> None:
    text = tables(report(0.5, 1.0, 1.0, 0.5))
    scores, differences = text.split("### Difference to base")

    assert "## tiny: 2 documents in 1 store(s), 4 questions" in scores
    for group in ("all (4)", "one (2)", "two (2)"):
        for column in ("turn@5", "any turn@5"):
            assert f"| {group} | {column} |" in scores and f"| {group} | {column} |" in differences
    assert "| other | 0.750 (0.75 to 0.75) |" not in scores.split("one (2)")[0]
    assert "| other | 0.750 (0.50 to 1.00) |" in scores
    assert "| other | +0.500 (0.500 to 0.500) |" in differences
    assert "| base | 2 | 1.0 | 1.0 | 7 | 50.0% | 0.0% |" in scores


def test_an_earlier_run_of_other_questions_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "earlier.json"
    file.write_text(json.dumps([as_json(make_collection(), {"base": make_trial(0, 0, 0, 0)})]))

    assert list(read_earlier(file, [make_collection()], "")) == ["tiny"]
    assert read_earlier(None, [make_collection()], "") == {}
    for collection, variant in ((make_collection("01"), ""), (make_collection(), "typo")):
        with pytest.raises(BadData, match="same --data and --variant"):
            read_earlier(file, [collection], variant)
    with pytest.raises(BadData, match=r"missing\.json"):
        read_earlier(tmp_path / "missing.json", [make_collection()], "")
