"""Updates of resources over MCP: streams of `subscriptions/listen`."""

from typing import Any

import pytest

from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.http import ask
from tests.support.keys import await_closed, make_key, revoke
from tests.support.mcp_calls import McpCalls, McpError
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

OTHER_STORE = "instances/${pipeline_uid}/notes"


def connect(web_system: WebSystem, uid: str, toolset: str = "") -> McpCalls:
    return McpCalls(web_system.url, f"/mcp/{uid}{toolset}")


def call(web_system: WebSystem, uid: str, path: str, body: Any = b"", method: str = "POST") -> Any:
    answer = ask(web_system.url, method, f"/v1/pipelines/{uid}/{path}", body)
    assert answer.status < 300, answer
    return answer.json if answer.body else None


def write(web_system: WebSystem, uid: str, content: str, **fields: Any) -> str:
    return str(call(web_system, uid, "records", {"content": content} | fields)["guid"])


def change(web_system: WebSystem, uid: str, guid: str, content: str) -> None:
    call(web_system, uid, f"records/{guid}", {"content": content}, "PATCH")


def try_change(web_system: WebSystem, uid: str, guid: str, content: str) -> bool:
    path = f"/v1/pipelines/{uid}/records/{guid}"
    return ask(web_system.url, "PATCH", path, {"content": content}).status == 200


def deploy_elsewhere(web_system: WebSystem, **store: bool) -> str:
    """Deploy a pipeline whose first store is not built in."""
    uid = make_uid()
    keys = {"stores": [{"memory_id": OTHER_STORE, **store}]} if store else {}
    web_system.system.deploy(make_bundle(uid, *make_commands(OTHER_STORE), **keys))
    return uid


def test_a_followed_record_is_reported_after_each_kind_of_change(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    guid, other = write(web_system, uid, "first"), write(web_system, uid, "other")
    record = f"memory://{uid}/records/{guid}"
    history = f"{record}/history"
    with connect(web_system, uid).listen(record, history) as stream:
        assert stream.honored == {"resourceSubscriptions": [record, history]}
        change(web_system, uid, other, "not followed")
        change(web_system, uid, guid, "second")
        assert [stream.hear_update(), stream.hear_update()] == [record, history]
        call(web_system, uid, f"records/{guid}", method="DELETE")
        assert [stream.hear_update(), stream.hear_update()] == [record, history]


def test_a_memory_is_reported_when_an_entry_changes(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    first, other = (call(web_system, uid, "memories", {"name": name})["id"] for name in "ab")
    uri = f"memory://{uid}/memories/{first}"
    with connect(web_system, uid).listen(uri) as stream:
        call(web_system, uid, "entries", {"memory_id": other, "content": "not followed"})
        entry = call(web_system, uid, "entries", {"memory_id": first, "content": "Ada likes tea"})
        assert stream.hear_update() == uri
        call(web_system, uid, f"entries/{entry['id']}", method="DELETE")
        assert stream.hear_update() == uri
        call(web_system, uid, f"memories/{first}", {"name": "c"}, "PATCH")
        assert stream.hear_update() == uri


def test_a_recipe_is_reported_when_it_changes(web_system: WebSystem) -> None:
    uid, uri = web_system.deploy(), ""
    call(web_system, uid, "recipes", {"definition": {"id": "p", "label": "P"}})
    uri = f"memory://{uid}/recipes/p"
    with connect(web_system, uid).listen(uri) as stream:
        call(web_system, uid, "recipes", {"definition": {"id": "other", "label": "P"}})
        call(web_system, uid, "recipes/p", {"definition": {"label": "Q"}}, "PATCH")
        assert stream.hear_update() == uri


def test_the_list_is_reported_only_when_it_changes(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    guid = write(web_system, uid, "plain")
    record = f"memory://{uid}/records/{guid}"
    with connect(web_system, uid).listen(record, to_list=True) as stream:
        change(web_system, uid, guid, "changed")
        assert stream.hear_update() == record
        write(web_system, uid, "rule", in_context=True)
        assert stream.hear_update() == "list"
        call(web_system, uid, "memories", {"name": "Team"})
        assert stream.hear_update() == "list"


def test_only_resources_that_the_client_may_read_are_followed(web_system: WebSystem) -> None:
    uid, other = web_system.deploy(), web_system.deploy()
    guid, secret = write(web_system, uid, "ours"), write(web_system, other, "secret")
    ours, theirs = f"memory://{uid}/records/{guid}", f"memory://{other}/records/{secret}"
    with connect(web_system, uid).listen(theirs, ours, "file:///x") as stream:
        assert stream.honored == {"resourceSubscriptions": [ours]}
        change(web_system, other, secret, "changed")
        change(web_system, uid, guid, "changed")
        assert stream.hear_update() == ours


def test_one_stream_follows_several_pipelines(web_system: WebSystem) -> None:
    first, second = web_system.deploy(), web_system.deploy()
    uris = {
        uid: f"memory://{uid}/records/{write(web_system, uid, 'text')}" for uid in (first, second)
    }
    with McpCalls(web_system.url, "/mcp").listen(*uris.values()) as stream:
        for uid, uri in uris.items():
            change(web_system, uid, uri.rpartition("/")[2], "changed")
            assert stream.hear_update() == uri


def test_a_pipeline_without_a_feed_declares_no_updates(web_system: WebSystem) -> None:
    off, on = deploy_elsewhere(web_system), deploy_elsewhere(web_system, changes=True)
    guid = write(web_system, on, "text")

    assert connect(web_system, off)("server/discover")["capabilities"]["resources"] == {
        "subscribe": False,
        "listChanged": False,
    }
    assert connect(web_system, on)("server/discover")["capabilities"]["resources"] == {
        "subscribe": True,
        "listChanged": True,
    }
    with pytest.raises(McpError, match="change feed") as refused, connect(web_system, off).listen():
        pass
    assert refused.value.code == -32601
    with connect(web_system, on).listen(f"memory://{on}/records/{guid}") as stream:
        change(web_system, on, guid, "changed")
        assert stream.hear_update().endswith(guid)


def test_updates_continue_after_the_bus_was_down(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    guid = write(web_system, uid, "text")
    uri = f"memory://{uid}/records/{guid}"
    with connect(web_system, uid).listen(uri) as stream:
        change(web_system, uid, guid, "before")
        assert stream.hear_update() == uri
        web_system.system.client.redis.client_kill_filter(_type="pubsub")
        wait_for(lambda: try_change(web_system, uid, guid, "during"), "the bus is up again")
        assert stream.hear_update() == uri
        change(web_system, uid, guid, "after")
        assert stream.hear_update() == uri


def test_a_stream_ends_with_a_result_when_the_server_stops() -> None:
    with WebSystem() as web_system:
        uid = web_system.deploy()
        guid = write(web_system, uid, "text")
        with connect(web_system, uid).listen(f"memory://{uid}/records/{guid}") as stream:
            web_system.web.stop()
            assert "result" in stream.receive()


def test_a_stream_ends_soon_after_its_key_is_revoked() -> None:
    with WebSystem() as web_system:
        uid = web_system.deploy()
        guid = write(web_system, uid, "text")
        key = make_key(web_system.system.root, "read", pipelines=(uid,))
        await_closed(web_system)
        client = McpCalls(web_system.url, f"/mcp/{uid}", key)
        with client.listen(f"memory://{uid}/records/{guid}") as stream:
            revoke(web_system.system.root, key)
            with pytest.raises((EOFError, ConnectionError)):
                stream.receive()
