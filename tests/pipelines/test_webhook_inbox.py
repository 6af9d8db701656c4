"""The sample webhook_inbox.json: a filter, a store, and a template that lists it."""

from pathlib import Path

from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan

SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "webhook_inbox.json"


def test_the_sample_has_no_faults_no_warnings_and_no_uid() -> None:
    checked = check(SAMPLE.read_bytes())

    assert (checked.faults, checked.warnings) == ((), ())
    assert b'pipeline_uid"' not in SAMPLE.read_bytes()


def test_the_inbox_accepts_everything_except_pings() -> None:
    inbox = Plan(check(SAMPLE.read_bytes()).accepted()).subscriber("inbox")

    assert inbox is not None
    assert inbox.wants('{"event": "paid"}')
    assert inbox.wants("plain words")
    assert not inbox.wants('{"event": "ping", "zen": "..."}')


def test_its_user_receives_the_results_but_not_the_relays() -> None:
    plan = Plan(check(SAMPLE.read_bytes()).accepted())

    assert plan.publisher("user") is not None
    assert plan.publisher("keep") is None
    assert plan.stores == (f"instances/{plan.uid}/inbox",)
