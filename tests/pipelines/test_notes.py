"""The sample notes.json: an agent keeps notes by calls of its memory tool."""

from pathlib import Path

import pytest

from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from tests.pipelines.builders import UID, faults_of, make_block

SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "notes.json"


def test_the_sample_has_no_faults_no_warnings_and_no_uid() -> None:
    checked = check(SAMPLE.read_bytes())

    assert (checked.faults, checked.warnings) == ((), ())
    assert b'pipeline_uid"' not in SAMPLE.read_bytes()


def test_its_block_uses_the_home_of_stores() -> None:
    plan = Plan(check(SAMPLE.read_bytes()).accepted())

    assert plan.stores == (plan.built_in_stores["stores"],)
    assert plan.embedded_stores == {plan.built_in_stores["stores"]}


@pytest.mark.parametrize("store", ["stores", ""])
def test_the_home_may_be_named(store: str) -> None:
    memory_id = f"instances/{UID}/{store}" if store else ""

    assert faults_of(make_block("memory_tool", {"memory_id": memory_id}), uid=UID) == []


@pytest.mark.parametrize("store", [f"instances/{UID}/memories", "instances/other/stores"])
def test_another_store_is_a_fault(store: str) -> None:
    (fault,) = faults_of(make_block("memory_tool", {"memory_id": store}), uid=UID)

    assert f'works only on "instances/{UID}/stores"' in fault and "leave memory_id out" in fault
