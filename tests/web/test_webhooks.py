"""Webhooks under Memrelay's path and under Kilroy's path."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.bundles import (
    Json,
    make_agent,
    make_bundle,
    make_commands,
    make_memory,
    make_uid,
)
from tests.support.http import Answer, ask, send_raw
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

TOKEN = "tea-with-milk"  # HOOK_TOKEN in the web server's environment


def make_hook(token: str = "env:HOOK_TOKEN", **keys: object) -> Json:
    """Return a writing agent that listens to no swarm and accepts webhooks with a token."""
    return make_memory("write", senders="nobody") | {"wf_webhook_token": token} | keys


def make_secret_file(web_system: WebSystem, name: str, text: str) -> Path:
    """Write a file into the default folder for secrets."""
    file = web_system.system.root / "secrets" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def make_chat(**keys: object) -> Json:
    talk = {
        "agent_name": "Ann",
        "wf_username": "ann",
        "agent_rec_swarm": "chat",
        "agent_send_swarm": "chat",
    }
    return {"agent_class": "chat_agent", "agent_alias": "ann"} | talk | keys


def kilroy(
    web_system: WebSystem,
    alias: str,
    trigger: str = "memory_write",
    token: str = TOKEN,
    body: str = "tea",
) -> Answer:
    return web_system.post(f"/api/v1/pd/webhook/{token}/{alias}/{trigger}?wait=60", body)


def test_a_webhook_reaches_its_agent_despite_agent_from(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_memory("write", senders="nobody at all"))

    answer = web_system.webhook(
        uid, "memory_write_", {"text": "tea", "from": "somebody"}, query="?wait=60"
    )

    assert "guid" in answer.texts[0]
    assert web_system.system.contents(uid) == ["tea"]


def test_a_loop_through_a_webhook_ends_at_the_most_hops(web_system: WebSystem) -> None:
    """`worker.max_hops` is 32, and the answer of the agent is one more."""
    uid = web_system.deploy(make_memory("write", senders="nobody"))

    for hop in (31, 32, "many"):
        web_system.webhook(uid, "memory_write_", f"tea {hop}", **{"Memrelay-Hop": str(hop)})

    (letter,) = wait_for(lambda: web_system.system.dead_letters(uid), "a dead letter")
    assert (letter.hop, b"tea 32" in letter.data) == ("32", True)


def test_a_webhook_reaches_no_other_agent(web_system: WebSystem) -> None:
    uid = web_system.deploy(
        *[make_memory("write", senders="User", alias=alias) for alias in ("one", "other")]
    )

    answer = web_system.webhook(uid, "one_", {"text": "tea", "from": "User"}, query="?wait=60")

    assert [result["from"] for result in answer.json["results"]] == ["one"]
    assert web_system.system.contents(uid) == ["tea"]


def test_a_webhook_to_a_chat_is_published_as_its_user(web_system: WebSystem) -> None:
    uid = web_system.deploy(
        make_chat(),
        *[
            agent | {"agent_from": "Ann"}
            if agent["wf_agent_name"].startswith("dispatch")
            else agent
            for agent in make_commands()
        ],
    )

    answer = web_system.webhook(
        uid, "ann", {"text": "/write tea", "from": "Mallory"}, query="?wait=60"
    )

    assert "guid" in answer.texts[0]
    entry = web_system.system.client.log(uid)[0]
    assert (entry.sender, entry.envelope["id"], entry.envelope["args"][0]["username"]) == (
        "Ann",
        "ann",
        "ann",
    )


@pytest.mark.parametrize(
    ("body", "content"),
    [
        ({"text": "tea"}, "tea"),
        ({"from": "x", "args": [{"text": "tea"}]}, "tea"),
        ({"event": "push"}, '{"event": "push"}'),
        ("tea", "tea"),
        ("5", "5"),
    ],
)
@pytest.mark.parametrize(
    "kind", ["application/json", "text/plain", "application/x-www-form-urlencoded", "nonsense", ""]
)
def test_the_content_type_does_not_matter(
    web_system: WebSystem, body: Json | str, content: str, kind: str
) -> None:
    uid = web_system.deploy(make_hook(""))

    answer = web_system.webhook(uid, "memory_write_", body, query="?wait=60", Content_Type=kind)

    assert answer.status == 200
    assert web_system.system.contents(uid) == [content]


@pytest.mark.parametrize(
    "agent",
    [
        make_chat(agent_send_swarm=""),
        make_chat(agent_class="viewer_agent"),
        make_agent("off", "add_1") | {"wf_call_webhook": False},
    ],
    ids=["mute chat", "viewer", "off"],
)
def test_an_agent_that_accepts_no_messages_is_not_found(web_system: WebSystem, agent: Json) -> None:
    status, detail = web_system.webhook(
        web_system.deploy(agent), agent["agent_alias"], "tea"
    ).problem

    assert status == 404
    assert "accepts no messages" in detail


def test_an_unknown_pipeline_or_alias_is_reported(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    assert (
        "no active pipeline has the uid 'nobody'"
        in web_system.webhook("nobody", "memory_write_", "x").problem[1]
    )
    assert (
        "has no agent 'memory_wirte'; it has dispatch_write_, "
        in web_system.webhook(uid, "memory_wirte", "x").problem[1]
    )


def test_an_alias_may_contain_a_slash(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_hook("") | {"agent_alias": "a/b ü"})

    assert web_system.webhook(uid, "a%2Fb%20%C3%BC", "tea", query="?wait=60").status == 200
    assert web_system.webhook(uid, "a/b%20%C3%BC", "tea").problem[0] == 404


def test_a_webhook_id_is_unique_per_agent(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_memory("write", alias="one"), make_memory("write", alias="other"))

    for alias in ("one_", "other_", "one_"):
        assert (
            web_system.webhook(uid, alias, alias, query="?wait=60", webhook_id="msg_1").json[
                "message_id"
            ]
            == "msg_1"
        )

    assert web_system.system.contents(uid) == ["one_", "other_"]


@pytest.mark.parametrize("header", [b"\xff", b"a\xc3", b"x" * 257, b"\xe2\x80\xae", b"", b" "])
def test_an_invalid_webhook_id_is_rejected(web_system: WebSystem, header: bytes) -> None:
    path = f"/webhooks/{web_system.deploy()}/memory_write_"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nwebhook-id: ".encode()

    assert send_raw(web_system.url, head + header + b"\r\n\r\nx").problem[0] == 400


def test_an_agent_with_a_token_rejects_requests_without_it(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_hook())

    right = web_system.webhook(
        uid, "memory_write_", "tea", query="?wait=60", Authorization=f"Bearer {TOKEN}"
    )
    wrong = [
        web_system.webhook(uid, "memory_write_", "milk", Authorization=given)
        for given in (
            "Bearer wrong",
            f"Basic {TOKEN}",
            "Bearer",
            f"Bearer {TOKEN}x",
            "Bearer \xff",
            TOKEN,
        )
    ]

    assert right.status == 200
    assert [answer.problem[0] for answer in wrong] == [401] * 6
    assert web_system.webhook(uid, "memory_write_", "milk").headers["www-authenticate"] == "Bearer"
    assert web_system.system.contents(uid) == ["tea"]


def test_a_token_file_may_change(web_system: WebSystem) -> None:
    file = make_secret_file(web_system, "token", "first\n")
    uid = web_system.deploy(make_hook("file:token"))

    def post(token: str) -> int:
        return web_system.webhook(
            uid, "memory_write_", "tea", Authorization=f"Bearer {token}"
        ).status

    first = post("first")
    file.write_text("second\n")

    assert first == 202
    wait_for(lambda: post("second") == 202, "the new token is accepted")
    assert post("first") == 401


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/ptmx", "/etc/passwd", "../system.db", "~/x"])
def test_a_file_outside_the_folder_is_a_deploy_fault_and_is_never_opened(
    web_system: WebSystem, name: str
) -> None:
    bundle = make_bundle(make_uid(), make_hook(f"file:{name}"))

    refused = web_system.post("/v1/pipelines", bundle)
    web_system.system.deploy(bundle)  # past the check
    answer = web_system.webhook(
        bundle["pipeline_uid"], "memory_write_", "tea", Authorization="Bearer x"
    )

    (fault,) = [one for one in refused.json["faults"] if one["severity"] == "error"]
    assert (refused.status, fault["pointer"]) == (422, "/agents/0/wf_webhook_token")
    assert "must lie in the folder secrets.folder" in fault["rule"]
    assert fault["suggestion"].startswith("move it there and write file:NAME")
    assert answer.status == 401


def test_a_deploy_warns_about_a_file_that_cannot_be_used(web_system: WebSystem) -> None:
    make_secret_file(web_system, "large", "x" * 65_537)
    hooks = [make_hook(f"file:{name}", agent_alias=name) for name in ("large", "absent")]

    warnings = web_system.post("/v1/pipelines", make_bundle(make_uid(), *hooks)).json["warnings"]

    assert [one["rule"] for one in warnings if one["pointer"].endswith("token")] == [
        "file:large is not a regular file of at most 64 KiB",
        "file:absent cannot be read: No such file or directory",
    ]


@pytest.mark.parametrize(
    "reference", ["env:NO_SUCH_TOKEN", "env:EMPTY_TOKEN", "file:nowhere/token"]
)
def test_an_unresolvable_reference_admits_nobody(web_system: WebSystem, reference: str) -> None:
    uid = web_system.deploy(make_hook(reference, agent_alias=f"hook {reference[-12:-6]}"))

    for given in ("Bearer ", "Bearer x", f"Bearer {reference}"):
        assert (
            web_system.webhook(
                uid, f"hook%20{reference[-12:-6]}", "tea", Authorization=given
            ).problem[0]
            == 401
        )


def test_the_kilroy_path_has_the_same_effect(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_hook(agent_alias="kilroy_was_here"))

    answer = kilroy(web_system, "kilroy_was_here")

    assert "guid" in answer.texts[0]
    assert web_system.system.contents(uid) == ["tea"]


def test_a_wrong_token_on_the_kilroy_path_is_rejected(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_hook(agent_alias="guarded"))

    refused = [
        kilroy(web_system, "guarded", token=token)
        for token in ("wrong", "API_TOKEN", "%ff", "%00", TOKEN + "%20")
    ]

    assert [answer.problem[0] for answer in refused] == [401] * 5
    assert web_system.system.contents(uid) == []


def test_the_kilroy_path_does_not_reach_agents_without_a_token(web_system: WebSystem) -> None:
    web_system.deploy(make_hook("", agent_alias="open"))

    status, detail = kilroy(web_system, "open").problem

    assert status == 401
    assert "wf_webhook_token" in detail


def test_an_unknown_alias_is_rejected_like_a_wrong_token(web_system: WebSystem) -> None:
    web_system.deploy(make_hook(agent_alias="known"))

    unknown, wrong = kilroy(web_system, "unknown"), kilroy(web_system, "known", token="wrong")

    assert unknown.problem[1].replace("unknown", "known") == wrong.problem[1]
    assert (unknown.status, wrong.status) == (401, 401)


def test_the_last_deployed_of_equal_pipelines_receives_on_the_kilroy_path(
    web_system: WebSystem,
) -> None:
    bundles = [make_bundle(make_uid(), make_hook(agent_alias="twin")) for _ in range(2)]
    older, newer = [str(bundle["pipeline_uid"]) for bundle in bundles]

    def contents() -> list[list[str]]:
        return [web_system.system.contents(uid) for uid in (older, newer)]

    for bundle in (*bundles, bundles[0]):  # deployed again without a change: still the older one
        web_system.system.deploy(bundle)
    assert kilroy(web_system, "twin", body="one").status == 200
    assert contents() == [[], ["one"]]

    assert ask(web_system.url, "DELETE", f"/v1/pipelines/{newer}").status == 204
    assert kilroy(web_system, "twin", body="two").status == 200
    assert contents() == [["two"], ["one"]]


def test_the_trigger_selects_among_agents_of_one_alias(web_system: WebSystem) -> None:
    writer = web_system.deploy(make_hook(agent_alias="same"))
    web_system.deploy(make_hook(agent_alias="same", wf_diagram_webhook="memory_read"))

    assert kilroy(web_system, "same").status == 200
    assert web_system.system.contents(writer) == ["tea"]


def test_a_wrong_trigger_is_reported(web_system: WebSystem) -> None:
    web_system.deploy(make_hook(agent_alias="triggered"))

    status, detail = kilroy(web_system, "triggered", trigger="memory_read").problem

    assert (status, detail) == (
        404,
        "agent triggered has the trigger 'memory_write', not 'memory_read'",
    )


def test_a_chat_on_the_kilroy_path_accepts_any_trigger(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_chat(agent_alias="telegram", wf_webhook_token="env:HOOK_TOKEN"))

    assert kilroy(web_system, "telegram", trigger="swarm_hook", body="hello").status == 200
    assert [entry.text for entry in web_system.system.client.log(uid)] == ["hello"]


def deploy_two_stores(web_system: WebSystem) -> str:
    """Deploy a relay whose message two agents write to different stores."""
    notes = {"memory_id": "instances/${pipeline_uid}/notes"}
    return web_system.deploy(
        make_agent("relay", "regex_filter", {"pattern": ""}, senders="nobody"),
        make_memory("write", senders="relay"),
        make_agent("note", "memory_write", notes, senders="relay"),
        make_agent("copy", "memory_write", notes, senders="memory_write"),
    )


def test_a_repeat_gets_the_same_answer_from_two_stores(web_system: WebSystem) -> None:
    uid = deploy_two_stores(web_system)
    answers = [
        web_system.webhook(uid, "relay_", "tea", query="?wait=60", webhook_id="order 1")
        for _ in range(3)
    ]

    results = [answer.json["results"] for answer in answers]
    assert [result["from"] for result in results[0]] == ["note", "copy"]
    assert results[1:] == [results[0]] * 2
    assert len(web_system.system.contents(uid, "notes")) == 2


def test_concurrent_repeats_wait_for_the_end_of_the_first_message(web_system: WebSystem) -> None:
    uid = deploy_two_stores(web_system)

    def send(_: int) -> Json:
        query = "?wait=60"
        return web_system.webhook(uid, "relay_", "tea", query=query, webhook_id="order 2").json

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(send, range(4)))

    assert len(answers[0]["results"]) == 2
    assert answers == answers[:1] * 4
    assert len(web_system.system.contents(uid, "notes")) == 2
