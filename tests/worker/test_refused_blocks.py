"""A block that is refused after a write leaves no write, like one that fails."""

from collections.abc import Iterator

import pytest

from memrelay import Call, Message, block
from memrelay.blocks import registry
from memrelay.blocks.memory_args import MemoryArgs
from memrelay.testing import test_pipeline
from tests.support.bundles import STORE, Json, make_agent, make_bundle


@pytest.fixture(autouse=True)
def names() -> Iterator[None]:
    """Remove the block of these tests."""
    yield
    registry._blocks.pop("write_and_get", None)


def make_pipeline() -> Json:
    @block("write_and_get", MemoryArgs)
    def write_and_get(call: Call, args: MemoryArgs) -> Message:
        """Write the text, and get the record that its last word names."""
        call.records.create(call.text)
        call.records.create(call.text + " again")
        return call.reply(call.records.get(call.text.split()[-1]).guid)

    named = {"memory_id": STORE}
    refused = make_agent("refused", "write_and_get", named, senders="User")
    return make_bundle("p", refused, make_agent("keep", "memory_write", named, senders="User"))


@pytest.mark.parametrize("has_policies", [False, True])
def test_no_write_of_a_refused_block_stays(has_policies: bool) -> None:
    with test_pipeline(make_pipeline()) as pipeline:
        if has_policies:
            policy = {
                "name": "mark",
                "match": {"filter": {"kind": {"eq": "other"}}},
                "action": "drop",
            }
            pipeline.store().policies.set(policy)
        pipeline.say("tea nobody")
        answers = pipeline.say("coffee nobody")
        kept = [one.content for one in pipeline.store().records.list().items]

    assert any("no record has the guid 'nobody'" in one.text for one in answers)
    assert sorted(kept) == ["coffee nobody", "tea nobody"]
