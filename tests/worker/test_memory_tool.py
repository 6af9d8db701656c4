"""The sample notes.json in a worker: an agent keeps notes by calls of its memory tool."""

from pathlib import Path
from typing import Any

import orjson

from tests.support.bundles import make_uid
from tests.support.calls import call, refused
from tests.support.house import House

SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "notes.json"


def use(house: House, uid: str, command: str, key: str = "", **given: Any) -> Any:
    """Return the value of a tool call that the agent sends."""
    arguments = {"command": command, "key": key} | given
    text = orjson.dumps(arguments).decode()
    answer = house.client.answer(uid, text, swarm="tools", sender="Agent")
    assert answer["is_error"] is False, answer
    return answer["value"]


def test_an_agent_keeps_notes_by_tool_calls() -> None:
    uid = make_uid()
    bundle = orjson.loads(SAMPLE.read_bytes()) | {"pipeline_uid": uid}
    with House() as house:
        worker = house.start_worker(bundles=[bundle])
        assert use(house, uid, "create", "todo", content="buy tea") == "Created /memories/todo"
        use(house, uid, "create", "mood", scope="chat", content="calm")
        worker.kill()
        house.start_worker()
        use(house, uid, "edit", "todo", old_str="tea", new_str="coffee")

        assert use(house, uid, "view", "todo")["value"] == "buy coffee"
        assert use(house, uid, "search", query="coffee")["results"][0]["key"] == "todo"
        stores = [one["storeId"] for one in use(house, uid, "stores")["stores"]]
        assert stores == ["assistant", f"chat:{uid}/tools", "user:Agent"]
        asked = {"agent": "assistant", "arguments": {"command": "view"}}
        assert call(house, uid, "memory_tool.read", asked)["value"]["keys"] == ["todo"]
        written = asked | {"arguments": {"command": "delete", "key": "todo"}}
        assert call(house, uid, "memory_tool.write", written)["value"] == "Deleted /memories/todo"
        assert refused(house, uid, "records.list")
        assert not house.dead_letters(uid)
