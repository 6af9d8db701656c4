"""The memory blocks read and search a store as it was, by deferred calls."""

import orjson
import pytest

from memrelay.blocks.registry import find_block
from memrelay.testing import test_pipeline
from tests.support.bundles import make_bundle, make_commands, make_memory


def test_blocks_read_and_search_the_state_of_then() -> None:
    readers = [
        make_memory("read", alias="read_past", senders="Ann", as_of="n:2"),
        make_memory(
            "read",
            alias="template",
            senders="Bob",
            as_of="n:2",
            limit=1,
            output_template="{{content}}",
        ),
        make_memory("search", alias="search_past", senders="Eve", as_of="n:2"),
        make_memory("read", alias="unknown", senders="Tom", as_of="n:99"),
    ]
    with test_pipeline(make_bundle("past", *make_commands(), *readers)) as p:

        def ask(sender: str, text: str = "") -> str:
            (answer,) = p.say(text, sender=sender)
            return answer.text

        records = p.store().records
        tea = records.create("green tea", tags=["hot"])
        records.create("tea with milk")
        records.delete(tea.guid)
        records.create("more tea")

        read = orjson.loads(ask("Ann"))
        found = orjson.loads(ask("Eve", "green"))

        assert [one["content"] for one in read] == ["green tea", "tea with milk"]
        assert read[0]["guid"] == tea.guid and read[0]["tags"] == ["hot"]
        assert read[0]["created_at"] > 1_700_000_000_000
        assert found == [read[0]]
        assert ask("Bob") == "green tea"
        assert ask("Eve", "nothing") == "[]"
        assert "the last one is n:4" in ask("Tom")


def test_a_time_that_is_none_is_a_fault_of_the_bundle() -> None:
    block = find_block("memory_read")
    assert block is not None
    with pytest.raises(ValueError, match="RFC 3339"):
        block.args.model_validate({"memory_id": "instances/a/memories", "as_of": "yesterday"})
