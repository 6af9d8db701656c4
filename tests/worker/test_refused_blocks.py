"""A block that is refused after a write leaves no write, like one that fails."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from memrelay import Call, Message, block
from memrelay.blocks import registry
from memrelay.blocks.memory_args import MemoryArgs
from memrelay.memory.errors import PolicyStop
from memrelay.testing import test_pipeline
from tests.support.bundles import STORE, Json, make_agent, make_bundle


@pytest.fixture(autouse=True)
def names() -> Iterator[None]:
    """Remove the blocks of these tests."""
    yield
    for name in ("write_and_get", "catch"):
        registry._blocks.pop(name, None)


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


@pytest.mark.parametrize(
    ("texts", "kept"), [(("ok", "BAD"), []), (("BAD",), ["before", "after"])], ids=["late", "first"]
)
@pytest.mark.parametrize("action", ["refuse", "drop", "review"])
def test_no_part_of_a_stopped_call_stays_if_the_block_catches_it(
    action: str, texts: tuple[str, ...], kept: list[str]
) -> None:
    @block("catch", MemoryArgs)
    def catch(call: Call, args: MemoryArgs) -> Message:
        """Write before and after a call that a policy stops."""
        call.records.create("before")
        with suppress(PolicyStop):
            call.turns.add([{"content": text} for text in texts])
        call.records.create("after")
        return call.reply("done")

    agent = make_agent("catch", "catch", {"memory_id": STORE}, senders="User")
    with test_pipeline(make_bundle("p", agent)) as pipeline:
        policy = {"name": "bad", "match": {"find": {"pattern": "BAD"}}, "action": action}
        pipeline.store().policies.set(policy)
        (answer,) = pipeline.say("tea")
        found = [one.content for one in pipeline.store().records.list().items]

    assert found == kept
    assert (answer.text == "done") == bool(kept)
