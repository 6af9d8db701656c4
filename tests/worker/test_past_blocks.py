"""The memory blocks read and search a store as it was, by deferred calls."""

import orjson
import pytest

from memrelay.blocks.registry import find_block
from tests.support.bundles import make_bundle, make_commands, make_memory, make_uid
from tests.support.calls import call
from tests.support.system import TestSystem
from tests.support.waiting import wait_for


def ask(system: TestSystem, uid: str, sender: str, text: str = "") -> str:
    """Return the text of the answer to a message, which a deferred call makes."""
    ident = system.client.enter(uid, text, sender=sender)

    def answers() -> list[str]:
        said = [one.text for one in system.client.log(uid) if one.input == ident]
        return said[1:]

    wait_for(answers, "the block answers")
    return answers()[-1]


def test_blocks_read_and_search_the_state_of_then() -> None:
    uid = make_uid()
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
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid, *make_commands(), *readers)])
        tea = call(system, uid, "records.create", {"content": "green tea", "tags": ["hot"]})
        call(system, uid, "records.create", {"content": "tea with milk"})
        call(system, uid, "records.delete", {"guid": tea["guid"]})
        call(system, uid, "records.create", {"content": "more tea"})

        read = orjson.loads(ask(system, uid, "Ann"))
        found = orjson.loads(ask(system, uid, "Eve", "green"))

        assert [one["content"] for one in read] == ["green tea", "tea with milk"]
        assert read[0]["guid"] == tea["guid"] and read[0]["tags"] == ["hot"]
        assert read[0]["created_at"] > 1_700_000_000_000
        assert found == [read[0]]
        assert ask(system, uid, "Bob") == "green tea"
        assert ask(system, uid, "Eve", "nothing") == "[]"
        assert "the last one is n:4" in ask(system, uid, "Tom")


def test_a_time_that_is_none_is_a_fault_of_the_bundle() -> None:
    block = find_block("memory_read")
    assert block is not None
    with pytest.raises(ValueError, match="RFC 3339"):
        block.args.model_validate({"memory_id": "instances/a/memories", "as_of": "yesterday"})
