"""Pipelit's paths over HTTP: lists, deletions, and the history of conversations."""

from urllib.parse import quote

import pytest

from tests.support.bundles import make_agent, make_bundle, make_uid
from tests.support.http import ask
from tests.support.pages import deploy_bundle
from tests.support.pipelit import Pipelit
from tests.support.web_system import WebSystem

FACT = {
    "id",
    "scope",
    "agent_id",
    "user_id",
    "key",
    "value",
    "fact_type",
    "confidence",
    "times_confirmed",
    "access_count",
    "created_at",
    "updated_at",
}
EPISODE = {
    "id",
    "agent_id",
    "user_id",
    "trigger_type",
    "success",
    "error_code",
    "summary",
    "started_at",
    "ended_at",
    "duration_ms",
    "created_at",
}
PROCEDURE = {
    "id",
    "agent_id",
    "name",
    "description",
    "procedure_type",
    "times_used",
    "times_succeeded",
    "times_failed",
    "success_rate",
    "is_active",
    "created_at",
}
USER = {
    "id",
    "canonical_id",
    "display_name",
    "telegram_id",
    "email",
    "total_conversations",
    "last_seen_at",
    "created_at",
}
NAMES = ("facts", "episodes", "procedures", "memory-users", "checkpoints")


@pytest.fixture
def pipelit(web_system: WebSystem) -> Pipelit:
    return Pipelit(web_system, web_system.deploy())


def test_facts_are_listed_by_scope_with_the_newest_first(pipelit: Pipelit) -> None:
    for key in "abc":
        pipelit.set_fact(key)
    pipelit.set_fact("mine", {"x": [1]}, scope="user", user_id="u1", fact_type="correction")

    first = pipelit.page("facts/?scope=global&limit=1")
    second = pipelit.page("memories/facts?scope=global&limit=1&offset=1")
    (mine,) = pipelit.page("facts?fact_type=correction")["items"]

    assert [(page["items"][0]["key"], page["total"]) for page in (first, second)] == [
        ("c", 3),
        ("b", 3),
    ]
    assert pipelit.page("memories/facts/?scope=global&limit=1") == first
    assert mine.keys() == FACT and mine["created_at"].endswith("Z")
    assert (mine["scope"], mine["user_id"], mine["agent_id"]) == ("user", "u1", None)
    assert (mine["value"], mine["confidence"], mine["access_count"]) == ({"x": [1]}, 1.0, 0)


def test_facts_are_deleted_by_their_ids(pipelit: Pipelit) -> None:
    ids = [pipelit.set_fact(key) for key in "abc"]

    pipelit.delete("facts", [ids[2], "nope"])
    pipelit.delete("facts", [])

    assert pipelit.page("facts/")["total"] == 2
    assert [item["key"] for item in pipelit.page("facts/")["items"]] == ["b", "a"]


def test_episodes_are_listed_by_agent(pipelit: Pipelit) -> None:
    first, second = [
        pipelit.operate("episodes/begin", agent_id=agent, trigger_type="chat")["id"]
        for agent in ("a1", "a2")
    ]
    pipelit.operate(f"episodes/{first}/complete", success=True, summary="Tea was ordered.")

    (item,) = pipelit.page("episodes/?agent_id=a1")["items"]
    assert item.keys() == EPISODE
    assert (item["id"], item["success"], item["summary"]) == (first, True, "Tea was ordered.")
    assert item["ended_at"] and item["duration_ms"] >= 0
    assert [one["id"] for one in pipelit.page("memories/episodes/")["items"]] == [second, first]
    pipelit.delete("memories/episodes", [first, second])
    assert pipelit.page("episodes/") == {"items": [], "total": 0}


def test_procedures_are_listed_with_inactive_ones(pipelit: Pipelit) -> None:
    given = {"agent_id": "a1", "name": "greet", "procedure_type": "prompt_template"}
    saved = pipelit.operate("procedures/save", **given, procedure_content={"template": "Hi"})
    ident = saved["procedure"]["id"]
    pipelit.operate(f"procedures/{ident}/use", success=True)
    pipelit.operate(f"procedures/{ident}/retire")

    (item,) = pipelit.page("procedures/?agent_id=a1")["items"]
    assert item.keys() == PROCEDURE
    assert (item["times_used"], item["success_rate"], item["is_active"]) == (1, 1.0, False)
    assert pipelit.page("memories/procedures?agent_id=a2")["total"] == 0
    pipelit.delete("procedures", [ident])
    assert pipelit.page("procedures")["total"] == 0


def test_users_are_listed_by_their_last_visit(pipelit: Pipelit) -> None:
    ids = [pipelit.identify(ident, name) for ident, name in (("7", "Ada"), ("8", "Bob"))]

    items = pipelit.page("memory-users/")["items"]

    assert [item["canonical_id"] for item in items] == ["telegram:8", "telegram:7"]
    assert items[1].keys() == USER
    assert (items[1]["id"], items[1]["display_name"], items[1]["email"]) == (ids[0], "Ada", None)
    assert pipelit.page("memories/users") == {"items": items, "total": 2}
    pipelit.delete("memory-users", ids)
    assert pipelit.page("memory-users")["total"] == 0


def test_a_deleted_checkpoint_leaves_its_parent_to_its_child(pipelit: Pipelit) -> None:
    pipelit.chat("t1", "one")
    pipelit.chat("t2", "two")

    page = pipelit.page("checkpoints/?thread_id=t1")
    last, middle, first = page["items"]
    pipelit.delete("checkpoints", [middle["checkpoint_id"], "nope"], "checkpoint_ids")
    after = pipelit.page("memories/checkpoints/?thread_id=t1")["items"]

    assert page["total"] == 3 and pipelit.page("checkpoints")["total"] == 5
    assert (first["step"], first["source"], first["checkpoint_ns"]) == (-1, "input", "")
    assert first["parent_checkpoint_id"] is None and first["blob_size"] > 0
    assert middle["parent_checkpoint_id"] == first["checkpoint_id"]
    assert [one["checkpoint_id"] for one in after] == [
        last["checkpoint_id"],
        first["checkpoint_id"],
    ]
    assert after[0]["parent_checkpoint_id"] == first["checkpoint_id"]


def test_whole_threads_are_deleted(pipelit: Pipelit) -> None:
    pipelit.chat("t1", "one")
    pipelit.chat("t2", "two")
    path = "checkpoints/batch-delete"

    assert pipelit("POST", path, {}).status == 204
    assert pipelit("POST", path, {"thread_ids": ["t1"], "checkpoint_ids": None}).status == 204

    assert {one["thread_id"] for one in pipelit.page("checkpoints")["items"]} == {"t2"}


def test_invalid_parameters_are_refused(pipelit: Pipelit) -> None:
    texts = {
        "facts?limit=0": "limit must be greater than or equal to 1",
        "facts?limit=1001": "limit must be less than or equal to 1000",
        "episodes?limit=x": "limit must be an integer, not 'x'",
        "users?offset=-1": "offset must be greater than or equal to 0",
        "procedures?offset=1.5": "offset must be an integer, not '1.5'",
        "facts?scope=globl": "unknown scope 'globl' (did you mean 'global'?)",
        "facts?fact_type=corection": "unknown fact_type 'corection' (did you mean 'correction'?)",
    }
    for path, text in texts.items():
        answer = pipelit("GET", f"memories/{path}")
        assert (answer.status, answer.json) == (422, {"detail": text})
    unknown = pipelit("GET", "facts?scop=global")
    assert (unknown.status, "unknown parameter 'scop'" in unknown.json["detail"]) == (400, True)


@pytest.mark.parametrize("name", NAMES)
def test_invalid_deletions_are_refused(pipelit: Pipelit, name: str) -> None:
    field = "checkpoint_ids" if name == "checkpoints" else "ids"
    for body in ({field: "a"}, {field: [1]}, {"idz": []}, b"[]"):
        assert pipelit("POST", f"{name}/batch-delete", body).status == 422, body
    assert pipelit("POST", f"{name}/batch-delete", b"{").status == 400


def test_the_parameter_selects_the_pipeline(web_system: WebSystem, pipelit: Pipelit) -> None:
    pipelit.set_fact("tea")
    web_system.deploy()

    unclear = web_system.get("/api/v1/facts/")
    chosen = web_system.get(f"/api/v1/facts/?pipeline={pipelit.uid}")
    unknown = web_system.get("/api/v1/facts/?pipeline=nothing")

    assert unclear.status == 400 and "or send ?pipeline=UID" in unclear.json["detail"]
    assert chosen.json["total"] == 1
    assert (unknown.status, list(unknown.json)) == (404, ["detail"])


def test_the_history_of_a_conversation_is_read_in_pages_and_deleted(pipelit: Pipelit) -> None:
    pipelit.chat(f"chat:User:{pipelit.uid}", "one", "two", "three")
    path = f"/api/v1/workflows/{pipelit.uid}/chat/history"
    url = pipelit.web_system.url

    page = ask(url, "GET", f"{path}?limit=2").json
    whole = ask(url, "GET", f"{path}/").json

    assert [(one["role"], one["text"]) for one in page["messages"]] == [
        ("user", "three"),
        ("assistant", "Echo: three"),
    ]
    assert (page["has_more"], page["thread_id"]) == (True, f"chat:User:{pipelit.uid}")
    assert (len(whole["messages"]), whole["has_more"]) == (6, False)
    assert ask(url, "GET", f"{path}?user_id=telegram:7").json["messages"] == []
    assert ask(url, "DELETE", path).status == 204
    assert ask(url, "GET", path).json["messages"] == []
    assert ask(url, "DELETE", f"{path}/").status == 204


def test_a_history_is_selected_by_user_and_chat(pipelit: Pipelit) -> None:
    pipelit.chat(f"telegram:7:room%3A1:{pipelit.uid}", "hello")
    path = f"workflows/{pipelit.uid}/chat/history?user_id=telegram:7"

    assert pipelit.page(path)["messages"] == []
    assert len(pipelit.page(f"{path}&chat_id=room:1")["messages"]) == 2
    assert pipelit("DELETE", path).status == 204
    assert len(pipelit.page(f"{path}&chat_id=room:1")["messages"]) == 2


def test_a_history_covers_the_workflow_ids_of_agents(web_system: WebSystem) -> None:
    args = {"url": "http://127.0.0.1:9/v1", "model": "m", "workflow_id": "support"}
    bot = make_agent("bot", "agent", args, on="chat")
    pipelit = Pipelit(web_system, deploy_bundle(web_system.url, make_bundle(make_uid(), bot)))
    path, named = f"workflows/{pipelit.uid}/chat/history", "workflows/support/chat/history"
    pipelit.chat(f"chat:User:{pipelit.uid}", "first")
    pipelit.chat("chat:User:support", "second")
    pipelit.chat("chat:User:other", "third")

    found = [pipelit.page(one) for one in (path, named)]
    assert found[0] == found[1] and found[0]["thread_id"] == "chat:User:support"
    assert ask(web_system.url, "GET", f"/api/v1/{named}").json == found[0]

    assert pipelit("DELETE", named).status == 204
    assert pipelit.page(named)["messages"] == []
    assert pipelit.page(path)["messages"][0]["text"] == "first"
    pipelit.chat("chat:User:support", "again")
    assert pipelit("DELETE", path).status == 204
    assert pipelit.page("checkpoints/?thread_id=chat:User:other")["total"] == 3
    assert pipelit.page("checkpoints/")["total"] == 3


def test_a_workflow_is_named_by_uid_or_name(web_system: WebSystem) -> None:
    uids = [
        deploy_bundle(web_system.url, make_bundle(make_uid(), name="tea & cake")) for _ in range(2)
    ]
    path = f"/api/v1/workflows/{quote('tea & cake')}/chat/history"

    unclear = web_system.get(path)
    statuses = [
        web_system.get(one).status
        for one in (
            f"/p/{uids[0]}{path}",
            f"{path}?pipeline={uids[1]}",
            f"/p/{uids[0]}/api/v1/workflows/{uids[1]}/chat/history",
        )
    ]
    ask(web_system.url, "DELETE", f"/v1/pipelines/{uids[0]}")

    assert unclear.status == 400 and "2 pipelines have the name" in unclear.json["detail"]
    assert statuses == [200, 200, 404]
    assert web_system.get(path).json["thread_id"] == f"chat:User:{uids[1]}"
