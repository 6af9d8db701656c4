"""Tests of the block and its pipeline. They need pytest, and no server."""

from pathlib import Path

from memrelay.testing import test_pipeline

HERE = Path(__file__).parent


def test_private_data_never_reaches_the_store() -> None:
    with test_pipeline(HERE / "bundle.json", blocks=HERE / "blocks") as p:
        p.crash_before("commit")
        p.say("Write to ada@example.org or call 030 1234567")
        (record,) = p.store().records.list().items

    assert record.content == "Write to [removed] or call [removed]"
    assert "ada@example.org" not in "".join(one.text for one in p.messages("clean"))
