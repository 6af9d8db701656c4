"""Each kind of expectation passes and fails, and the reports say what was expected and found."""

import asyncio
import json
from typing import Any
from xml.etree import ElementTree

import pytest

from memrelay.questions.file import read_questions
from memrelay.questions.model import Question
from memrelay.questions.reports import make_junit, report_lines
from memrelay.questions.run import MAX_AT_ONCE, Call, Outcome, SearchRefused, ask_all

# The results of every search, best first.
RESULTS = (("g1", "Ada likes green tea"), ("g2", "Ada drinks coffee"), ("g3", "tea is hot"))


def make_question(**fields: Any) -> Question:
    (question,) = read_questions(json.dumps({"questions": [{"question": "tea"} | fields]}).encode())
    return question


async def search(call: Call) -> dict[str, Any]:
    items = [
        {"record": {"guid": guid, "key": f"key-{guid}", "content": text}, "score": 1 / rank}
        for rank, (guid, text) in enumerate(RESULTS, 1)
    ]
    if call.input["query"] == "refused":
        raise SearchRefused("the query has too many words")
    found = [] if call.input["query"] == "unknown" else items[: call.input["limit"]]
    return {"items": found, "degraded": None}


def ask(*questions: Question) -> list[Outcome]:
    return asyncio.run(ask_all(questions, search))


def failures(**fields: Any) -> list[str]:
    (outcome,) = ask(make_question(**fields))
    assert outcome.passed is not bool(outcome.failures)
    return list(map(str, outcome.failures))


@pytest.mark.parametrize(
    "fields",
    [
        {"must": ["green TEA"]},
        {"must": [{"guid": "g2", "max_rank": 2}]},
        {"must": [{"key": "key-g1", "text": "Ada", "max_rank": 1}]},
        {"must": [{"regex": r"^Ada \w+ coffee$"}]},
        {"must": ["Ada", "Ada", "hot"], "in_order": True},
        {"must": ["green tea"], "may": ["coffee", {"guid": "g3"}]},
        {"may": ["tea", "coffee"]},
        {"must_not": ["milk", {"regex": "^tea$"}]},
        {"must_not": ["hot"], "k": 2},
        {"question": "unknown", "nothing": True},
        {"question": "unknown", "may": ["tea"], "must_not": ["tea"]},
    ],
)
def test_a_met_expectation_passes(fields: dict[str, Any]) -> None:
    assert failures(**fields) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"must": ["milk"]}, 'text "milk": not among the first 10'),
        ({"must": ["hot"], "k": 2}, 'text "hot": not among the first 2'),
        (
            {"must": [{"guid": "g2", "max_rank": 1}]},
            'guid "g2" at rank 1 or better: at rank 2',
        ),
        (
            {"must": [{"key": "key-g1", "text": "coffee"}]},
            'key "key-g1", text "coffee": not among the first 10',
        ),
        ({"must": [{"regex": "^tea$"}]}, 'regex "^tea$": not among the first 10'),
        (
            {"must": ["coffee", "green"], "in_order": True},
            'text "green" after text "coffee": at rank 1, not after 2',
        ),
        (
            {"must": ["green"], "may": ["coffee"]},
            'only what must and may names: at rank 3: "key-g3: tea is hot"',
        ),
        ({"must_not": ["coffee"]}, 'not text "coffee": at rank 2: "key-g2: Ada drinks coffee"'),
        ({"nothing": True}, 'nothing: found 3, first "key-g1: Ada likes green tea"'),
        ({"question": "unknown", "must": ["tea"]}, 'text "tea": not among the first 10'),
    ],
)
def test_an_expectation_that_is_not_met_fails_with_what_was_found(
    fields: dict[str, Any], expected: str
) -> None:
    assert failures(**fields) == [expected]


def test_each_question_is_one_call_and_few_run_at_once() -> None:
    calls, running, most = 0, 0, 0

    async def count(call: Call) -> dict[str, Any]:
        nonlocal calls, running, most
        calls, running = calls + 1, running + 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return await search(call)

    questions = [make_question(must=["green"], name=str(at)) for at in range(200)]
    outcomes = asyncio.run(ask_all(questions, count))

    assert (calls, most) == (200, MAX_AT_ONCE)
    assert [one.question.name for one in outcomes] == [str(at) for at in range(200)]
    assert all(one.passed for one in outcomes)


def test_junit_counts_failures_and_errors_and_holds_any_text() -> None:
    outcomes = ask(
        make_question(must=["green"]),
        make_question(must=["mi\x00lk <&>\ud7ff\uffff"], name="milk"),
        make_question(question="refused", must=["x"]),
    )

    suite = ElementTree.fromstring(make_junit("drinks", outcomes))

    assert suite.tag == "testsuite"
    counts = {name: suite.get(name) for name in ("name", "tests", "failures", "errors", "skipped")}
    assert counts == {
        **{"name": "drinks", "tests": "3", "failures": "1", "errors": "1", "skipped": "0"}
    }
    passed, failed, refused = suite.findall("testcase")
    assert (passed.get("name"), list(passed)) == ("tea", [])
    assert (failed.get("name"), failed.get("classname")) == ("milk", "drinks.records.search")
    (failure,) = failed
    assert failure.tag == "failure" and "<&>" in str(failure.get("message"))
    assert "g2  key-g2: Ada drinks coffee" in str(failure.text)
    (error,) = refused
    assert (error.tag, error.get("message")) == ("error", "the query has too many words")


def test_the_lines_show_failures_with_ranks_and_a_summary() -> None:
    outcomes = ask(make_question(must=["green"]), make_question(must=["milk"], k=1))

    assert list(report_lines(outcomes)) == [
        "FAILED  tea",
        '  expected text "milk": not among the first 1',
        "    1  1.000  g1  key-g1: Ada likes green tea",
        "",
        "2 questions: 1 passed, 1 failed",
    ]
