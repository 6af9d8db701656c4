"""The sample conversation.json: it stores messages as turns and finds them by meaning."""

from pathlib import Path

from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan

SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "conversation.json"


def test_the_sample_has_no_faults_no_warnings_and_no_uid() -> None:
    checked = check(SAMPLE.read_bytes())

    assert (checked.faults, checked.warnings) == ((), ())
    assert b'pipeline_uid"' not in SAMPLE.read_bytes()


def test_a_turn_has_the_swarm_of_its_message() -> None:
    subscriber = Plan(check(SAMPLE.read_bytes()).accepted()).subscriber("turns")

    assert subscriber is not None
    assert subscriber.agent.swarm == "talk"
