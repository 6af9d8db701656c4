"""The sample notes.json in a worker: an agent keeps notes by calls of its memory tool."""

from pathlib import Path
from typing import Any

import orjson

from tests.support.bundles import make_uid
from tests.support.calls import call, refused
from tests.support.system import TestSystem

SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "notes.json"


def use(system: TestSystem, uid: str, command: str, key: str = "", **given: Any) -> Any:
    """Return the value of a tool call that the agent sends."""
    arguments = {"command": command, "key": key} | given
    text = orjson.dumps(arguments).decode()
    answer = system.client.answer(uid, text, swarm="tools", sender="Agent")
    assert answer["is_error"] is False, answer
    return answer["value"]


def test_an_agent_keeps_notes_by_tool_calls() -> None:
    uid = make_uid()
    bundle = orjson.loads(SAMPLE.read_bytes()) | {"pipeline_uid": uid}
    with TestSystem() as system:
        worker = system.start_worker(bundles=[bundle])
        assert use(system, uid, "create", "todo", content="buy tea") == "Created /memories/todo"
        use(system, uid, "create", "mood", scope="chat", content="calm")
        worker.kill()
        system.start_worker()
        use(system, uid, "edit", "todo", old_str="tea", new_str="coffee")

        assert use(system, uid, "view", "todo")["value"] == "buy coffee"
        assert use(system, uid, "search", query="coffee")["results"][0]["key"] == "todo"
        stores = [one["storeId"] for one in use(system, uid, "stores")["stores"]]
        assert stores == ["assistant", f"chat:{uid}/tools", "user:Agent"]
        asked = {"agent": "assistant", "arguments": {"command": "view"}}
        assert call(system, uid, "memory_tool.read", asked)["value"]["keys"] == ["todo"]
        written = asked | {"arguments": {"command": "delete", "key": "todo"}}
        assert call(system, uid, "memory_tool.write", written)["value"] == "Deleted /memories/todo"
        assert refused(system, uid, "records.list")
        assert not system.dead_letters(uid)
