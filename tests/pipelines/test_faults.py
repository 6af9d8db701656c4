"""Faults: how they read, for people and for programs."""

import pytest

from memrelay.pipelines.checked import BundleRefused
from memrelay.pipelines.report import MOST, Fault, Report, pointer, quoted

TYPO = Fault(
    "/agents/2/agent_from",
    'no agent publishes as "dispatch_wirte"',
    'did you mean "dispatch_write"?',
)


def test_a_line_names_file_place_rule_and_remedy() -> None:
    assert TYPO.as_line("pipelines/x.json") == (
        'pipelines/x.json: agents[2].agent_from: no agent publishes as "dispatch_wirte"; did you mean "dispatch_write"?'
    )


def test_what_is_not_known_is_left_out_of_the_line() -> None:
    assert Fault("", "must be a JSON object").as_line("x.json") == "x.json: must be a JSON object"


def test_json_has_the_pointer_as_it_is() -> None:
    assert TYPO.as_json() == {
        "pointer": "/agents/2/agent_from",
        "rule": TYPO.rule,
        "suggestion": TYPO.suggestion,
        "severity": "error",
    }


def test_odd_keys_are_escaped_in_the_pointer_and_quoted_in_the_line() -> None:
    at = pointer(("a/b~c", 0, "two\nlines"))

    assert at == "/a~1b~0c/0/two\nlines"
    assert Fault(at, "wrong").as_line() == '["a/b~c"][0]["two\\nlines"]: wrong'


def test_a_long_text_is_cut_where_it_is_quoted() -> None:
    assert len(quoted("x" * 5000)) < 120


def test_faults_are_told_in_the_order_of_the_agents() -> None:
    report = Report()
    for at in (10, 2):
        report.error(("agents", at), "wrong")

    assert [fault.pointer for fault in report.errors] == ["/agents/2", "/agents/10"]


def test_a_place_is_told_of_once() -> None:
    report = Report()
    report.error(("agents",), "must be a list")
    report.error(("agents",), "is missing")

    assert [fault.rule for fault in report.errors] == ["must be a list"]


def test_a_doubt_at_the_place_of_an_error_only_follows_from_it() -> None:
    report = Report()
    report.warn(("agents", 0), "is doubted")
    report.error(("agents", 0), "is wrong")
    report.warn(("agents", 0), "is doubted again")
    report.warn(("agents", 1), "is doubted")

    assert [fault.pointer for fault in report.warnings] == ["/agents/1"]


def test_a_file_of_noise_is_told_of_up_to_a_bound() -> None:
    report = Report()
    for at in range(MOST + 100):
        report.unknown(("agents", at), "wrong", "word", ["work"])

    assert len(report.errors) == MOST + 1
    assert report.errors[0] == Fault("", f"there are more than these {MOST}", "mend them first")


def test_a_refusal_holds_every_fault_and_reads_as_their_lines() -> None:
    with pytest.raises(BundleRefused, match=r"(?s)agents\[2\].agent_from.*\nmust be") as refused:
        raise BundleRefused([TYPO, Fault("", "must be a JSON object")])

    assert len(refused.value.faults) == 2
