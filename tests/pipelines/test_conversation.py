"""conversation.json, the sample: what is said is kept turn by turn, and found by what was meant."""

from pathlib import Path

from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan

SAMPLE = Path(__file__).resolve().parents[2] / "pipelines" / "conversation.json"


def test_the_sample_has_no_fault_no_warning_and_no_uid() -> None:
    checked = check(SAMPLE.read_bytes())

    assert (checked.faults, checked.warnings) == ((), ())
    assert b'pipeline_uid"' not in SAMPLE.read_bytes()


def test_the_turns_know_the_swarm_that_they_are_heard_on() -> None:
    station = Plan(check(SAMPLE.read_bytes()).accepted()).station("turns")

    assert station is not None
    assert station.agent.swarm == "talk"
