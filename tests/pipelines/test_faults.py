"""Faults as lines and as JSON, and the limits of a report."""

import pytest

from memrelay.memory.validation import pointer
from memrelay.pipelines.checked import BundleRefused
from memrelay.pipelines.report import MAX_FAULTS, Fault, Report, quoted

TYPO = Fault(
    "/agents/2/agent_from",
    'no agent publishes as "dispatch_wirte"',
    'did you mean "dispatch_write"?',
)


def test_a_line_names_file_place_rule_and_remedy() -> None:
    assert TYPO.as_line("pipelines/x.json") == (
        'pipelines/x.json: agents[2].agent_from: no agent publishes as "dispatch_wirte"; '
        'did you mean "dispatch_write"?'
    )


def test_missing_parts_are_omitted_from_the_line() -> None:
    assert Fault("", "must be a JSON object").as_line("x.json") == "x.json: must be a JSON object"


def test_json_has_the_pointer_unchanged() -> None:
    assert TYPO.as_json() == {
        "pointer": "/agents/2/agent_from",
        "rule": TYPO.rule,
        "suggestion": TYPO.suggestion,
        "severity": "error",
    }


def test_unusual_keys_are_escaped_in_the_pointer_and_quoted_in_the_line() -> None:
    at = pointer(("a/b~c", 0, "two\nlines"))

    assert at == "/a~1b~0c/0/two\nlines"
    assert Fault(at, "wrong").as_line() == '["a/b~c"][0]["two\\nlines"]: wrong'


def test_a_long_quoted_text_is_truncated() -> None:
    assert len(quoted("x" * 5000)) < 120


def test_faults_are_sorted_by_agent() -> None:
    report = Report()
    for at in (10, 2):
        report.error(("agents", at), "wrong")

    assert [fault.pointer for fault in report.errors] == ["/agents/2", "/agents/10"]


def test_a_place_has_one_error() -> None:
    report = Report()
    report.error(("agents",), "must be a list")
    report.error(("agents",), "is missing")

    assert [fault.rule for fault in report.errors] == ["must be a list"]


def test_a_warning_at_the_place_of_an_error_is_omitted() -> None:
    report = Report()
    report.warn(("agents", 0), "is doubted")
    report.error(("agents", 0), "is wrong")
    report.warn(("agents", 0), "is doubted again")
    report.warn(("agents", 1), "is doubted")

    assert [fault.pointer for fault in report.warnings] == ["/agents/1"]


def test_the_number_of_faults_is_limited() -> None:
    report = Report()
    for at in range(MAX_FAULTS + 100):
        report.unknown(("agents", at), "wrong", "word", ["work"])

    assert len(report.errors) == MAX_FAULTS + 1
    assert report.errors[0] == Fault(
        "", f"there are more than these {MAX_FAULTS}", "correct these first"
    )


def test_a_refusal_contains_every_fault_as_a_line() -> None:
    with pytest.raises(BundleRefused, match=r"(?s)agents\[2\].agent_from.*\nmust be") as refused:
        raise BundleRefused([TYPO, Fault("", "must be a JSON object")])

    assert len(refused.value.faults) == 2
