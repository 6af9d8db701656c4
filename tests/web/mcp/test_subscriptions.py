"""Updates of resources over MCP: streams of `subscriptions/listen`."""

from typing import Any

import pytest

from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.http import ask
from tests.support.keys import await_closed, make_key, revoke
from tests.support.mcp_calls import McpCalls, McpError
from tests.support.served import Served
from tests.support.waiting import wait_for

OTHER_STORE = "instances/${pipeline_uid}/notes"


def connect(served: Served, uid: str, toolset: str = "") -> McpCalls:
    return McpCalls(served.url, f"/mcp/{uid}{toolset}")


def call(served: Served, uid: str, path: str, body: Any = b"", method: str = "POST") -> Any:
    answer = ask(served.url, method, f"/v1/pipelines/{uid}/{path}", body)
    assert answer.status < 300, answer
    return answer.json if answer.body else None


def write(served: Served, uid: str, content: str, **fields: Any) -> str:
    return str(call(served, uid, "records", {"content": content} | fields)["guid"])


def change(served: Served, uid: str, guid: str, content: str) -> None:
    call(served, uid, f"records/{guid}", {"content": content}, "PATCH")


def try_change(served: Served, uid: str, guid: str, content: str) -> bool:
    path = f"/v1/pipelines/{uid}/records/{guid}"
    return ask(served.url, "PATCH", path, {"content": content}).status == 200


def deploy_elsewhere(served: Served, **store: bool) -> str:
    """Deploy a pipeline whose first store is not built in."""
    uid = make_uid()
    keys = {"stores": [{"memory_id": OTHER_STORE, **store}]} if store else {}
    served.house.deploy(make_bundle(uid, *make_commands(OTHER_STORE), **keys))
    return uid


def test_a_followed_record_is_reported_after_each_kind_of_change(served: Served) -> None:
    uid = served.deploy()
    guid, other = write(served, uid, "first"), write(served, uid, "other")
    record = f"memory://{uid}/records/{guid}"
    history = f"{record}/history"
    with connect(served, uid).listen(record, history) as stream:
        assert stream.honored == {"resourceSubscriptions": [record, history]}
        change(served, uid, other, "not followed")
        change(served, uid, guid, "second")
        assert [stream.hear_update(), stream.hear_update()] == [record, history]
        call(served, uid, f"records/{guid}", method="DELETE")
        assert [stream.hear_update(), stream.hear_update()] == [record, history]


def test_a_memory_is_reported_when_an_entry_changes(served: Served) -> None:
    uid = served.deploy()
    first, other = (call(served, uid, "memories", {"name": name})["id"] for name in "ab")
    uri = f"memory://{uid}/memories/{first}"
    with connect(served, uid).listen(uri) as stream:
        call(served, uid, "entries", {"memory_id": other, "content": "not followed"})
        entry = call(served, uid, "entries", {"memory_id": first, "content": "Ada likes tea"})
        assert stream.hear_update() == uri
        call(served, uid, f"entries/{entry['id']}", method="DELETE")
        assert stream.hear_update() == uri
        call(served, uid, f"memories/{first}", {"name": "c"}, "PATCH")
        assert stream.hear_update() == uri


def test_a_recipe_is_reported_when_it_changes(served: Served) -> None:
    uid, uri = served.deploy(), ""
    call(served, uid, "recipes", {"definition": {"id": "p", "label": "P"}})
    uri = f"memory://{uid}/recipes/p"
    with connect(served, uid).listen(uri) as stream:
        call(served, uid, "recipes", {"definition": {"id": "other", "label": "P"}})
        call(served, uid, "recipes/p", {"definition": {"label": "Q"}}, "PATCH")
        assert stream.hear_update() == uri


def test_the_list_is_reported_only_when_it_changes(served: Served) -> None:
    uid = served.deploy()
    guid = write(served, uid, "plain")
    record = f"memory://{uid}/records/{guid}"
    with connect(served, uid).listen(record, to_list=True) as stream:
        change(served, uid, guid, "changed")
        assert stream.hear_update() == record
        write(served, uid, "rule", in_context=True)
        assert stream.hear_update() == "list"
        call(served, uid, "memories", {"name": "Team"})
        assert stream.hear_update() == "list"


def test_only_resources_that_the_client_may_read_are_followed(served: Served) -> None:
    uid, other = served.deploy(), served.deploy()
    guid, secret = write(served, uid, "ours"), write(served, other, "secret")
    ours, theirs = f"memory://{uid}/records/{guid}", f"memory://{other}/records/{secret}"
    with connect(served, uid).listen(theirs, ours, "file:///x") as stream:
        assert stream.honored == {"resourceSubscriptions": [ours]}
        change(served, other, secret, "changed")
        change(served, uid, guid, "changed")
        assert stream.hear_update() == ours


def test_one_stream_follows_several_pipelines(served: Served) -> None:
    first, second = served.deploy(), served.deploy()
    uris = {uid: f"memory://{uid}/records/{write(served, uid, 'text')}" for uid in (first, second)}
    with McpCalls(served.url, "/mcp").listen(*uris.values()) as stream:
        for uid, uri in uris.items():
            change(served, uid, uri.rpartition("/")[2], "changed")
            assert stream.hear_update() == uri


def test_a_pipeline_without_a_feed_declares_no_updates(served: Served) -> None:
    off, on = deploy_elsewhere(served), deploy_elsewhere(served, changes=True)
    guid = write(served, on, "text")

    assert connect(served, off)("server/discover")["capabilities"]["resources"] == {
        "subscribe": False,
        "listChanged": False,
    }
    assert connect(served, on)("server/discover")["capabilities"]["resources"] == {
        "subscribe": True,
        "listChanged": True,
    }
    with pytest.raises(McpError, match="change feed") as refused, connect(served, off).listen():
        pass
    assert refused.value.code == -32601
    with connect(served, on).listen(f"memory://{on}/records/{guid}") as stream:
        change(served, on, guid, "changed")
        assert stream.hear_update().endswith(guid)


def test_updates_continue_after_the_bus_was_down(served: Served) -> None:
    uid = served.deploy()
    guid = write(served, uid, "text")
    uri = f"memory://{uid}/records/{guid}"
    with connect(served, uid).listen(uri) as stream:
        change(served, uid, guid, "before")
        assert stream.hear_update() == uri
        served.house.client.redis.client_kill_filter(_type="pubsub")
        wait_for(lambda: try_change(served, uid, guid, "during"), "the bus is up again")
        assert stream.hear_update() == uri
        change(served, uid, guid, "after")
        assert stream.hear_update() == uri


def test_a_stream_ends_with_a_result_when_the_server_stops() -> None:
    with Served() as served:
        uid = served.deploy()
        guid = write(served, uid, "text")
        with connect(served, uid).listen(f"memory://{uid}/records/{guid}") as stream:
            served.web.stop()
            assert "result" in stream.hear()


def test_a_stream_ends_soon_after_its_key_is_revoked() -> None:
    with Served() as served:
        uid = served.deploy()
        guid = write(served, uid, "text")
        key = make_key(served.house.root, "read", pipelines=(uid,))
        await_closed(served)
        client = McpCalls(served.url, f"/mcp/{uid}", key)
        with client.listen(f"memory://{uid}/records/{guid}") as stream:
            revoke(served.house.root, key)
            with pytest.raises((EOFError, ConnectionError)):
                stream.hear()
