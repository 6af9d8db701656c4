"""Golden questions are asked of the stores of both bundles at the end of a rehearsal."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from memrelay.memory.errors import Refused
from memrelay.rehearsal.output import format_junit, format_report
from memrelay.rehearsal.questions import check_questions
from tests.rehearsal.helpers import LivePipeline
from tests.support.bundles import STORE, make_agent, make_bundle

FACTS = {"search": "knowledge.search", "memory": "notes", "store": STORE}
QUESTIONS = [
    FACTS | {"question": "movie", "must": ["movie begins"]},
    FACTS | {"question": "lunch", "must": ["Lunch is at noon"]},
    FACTS | {"question": "coffee", "must": ["coffee"]},
    {"question": "x", "name": "elsewhere", "store": "instances/other/x", "must": ["x"]},
]


def keep(threshold: float) -> dict[str, object]:
    args = {"memory_id": STORE, "memory": "notes", "duplicate_threshold": threshold}
    return make_bundle("p", make_agent("keep", "memory_entry_write", args, senders="User"))


def test_the_report_has_the_questions_that_fail_with_ranks_before_and_after(
    tmp_path: Path,
) -> None:
    live = LivePipeline(tmp_path / "live", keep(0.95))
    live.say("The film starts at noon", "The movie begins at noon", "Lunch is at noon")

    report = live.rehearse(
        tmp_path / "rehearsal", keep(0.75), questions=json.dumps({"questions": QUESTIONS})
    )
    live.close()

    assert report["tests"] == {"questions": 4, "then": 2, "candidate": 1}
    movie, coffee, elsewhere = report["questions"]
    assert (movie["then"]["passed"], movie["candidate"]["passed"]) == (True, False)
    assert "movie begins" in movie["then"]["found"][0]["text"]
    assert movie["candidate"]["failures"] == ['text "movie begins": not among the first 10']
    assert coffee["name"] == "coffee"
    assert "names no store" in elsewhere["candidate"]["failures"][0]
    lines = format_report(report).splitlines()
    assert "golden questions: 2 of 4 pass, and 1 under the candidate" in lines
    assert "question fails, passed before: movie" in lines
    suite = ElementTree.fromstring(format_junit(report))
    failed = [
        one.get("name") for one in suite.findall("testcase") if one.find("failure") is not None
    ]
    assert {"question: movie", "question: coffee", "question: elsewhere"} <= set(failed)
    assert suite.get("failures") == str(len(failed))


def test_invalid_questions_are_refused_with_their_faults() -> None:
    with pytest.raises(Refused, match=r"questions:1: questions\[0\]\.k: must be"):
        check_questions("questions: [{question: a, must: [b], k: 0}]", "p")
