"""Authentication with keys over HTTP, and its start with the first key."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

from tests.support.bundles import Json, make_bundle, make_commands, make_memory, make_uid
from tests.support.child import ChildProcess, start_program
from tests.support.http import Answer, ask
from tests.support.keys import ApiKey, await_closed, make_key, revoke
from tests.support.listener import Listener
from tests.support.system import TestSystem
from tests.support.waiting import LATE_S, wait_for
from tests.support.web_system import WebSystem


def get(web_system: WebSystem, path: str, key: ApiKey) -> Answer:
    return ask(web_system.url, "GET", path, b"", key.headers)


def test_the_first_key_makes_authentication_mandatory_until_the_end() -> None:
    with WebSystem(worker=False) as web_system:
        assert web_system.get("/status").status == 200
        assert "no key was ever made" in web_system.web.await_event("web_ready")["access"]

        key = make_key(web_system.system.root)
        await_closed(web_system)
        assert get(web_system, "/status", key).status == 200

        revoke(web_system.system.root, key)
        wait_for(lambda: get(web_system, "/status", key).status == 401, "the key is rejected")
        assert (web_system.get("/status").status, web_system.get("/v1/pipelines").status) == (
            401,
            401,
        )

        web_system.web.stop()
        web_system.start_web()
        assert web_system.get("/status").status == 401


def test_losing_all_keys_disables_no_authentication() -> None:
    with WebSystem(worker=False) as web_system:
        make_key(web_system.system.root)
        await_closed(web_system)

        os.truncate(web_system.system.root / "system.db", 0)

        wait_for(lambda: web_system.get("/v1/pipelines").status == 503, "the keys cannot be read")
        assert "it is empty" in web_system.get("/v1/pipelines").problem[1]


def test_a_revoked_key_stops_working_within_a_second(keyed: WebSystem) -> None:
    key = make_key(keyed.system.root, "read")
    wait_for(lambda: get(keyed, "/status", key).status == 200, "the key is known")

    revoke(keyed.system.root, key)
    wait_for(lambda: get(keyed, "/status", key).status == 401, "the key is revoked", 1 + LATE_S)

    status, detail = get(keyed, "/status", key).problem
    assert (status, detail) == (
        401,
        "the key 'test' was revoked; create another with `memrelay keys create`",
    )


def test_only_the_right_secret_reveals_that_a_key_was_revoked(keyed: WebSystem) -> None:
    key = make_key(keyed.system.root, lasts_ms=-1)
    forged = ApiKey(key.id, f"mr_{key.id}_{'0' * 64}")

    wait_for(lambda: "has expired" in get(keyed, "/status", key).problem[1], "the key is known")

    assert "has expired" not in get(keyed, "/status", forged).problem[1]
    assert get(keyed, "/status", forged).headers["www-authenticate"] == "Bearer"


def test_lists_and_counts_cover_the_pipelines_of_the_key(keyed: WebSystem) -> None:
    mine, other = keyed.deploy(), keyed.deploy()
    key = make_key(keyed.system.root, "read", pipelines=(mine,))
    wait_for(lambda: get(keyed, "/v1/pipelines", key).status == 200, "the key is known")

    listed, status = get(keyed, "/v1/pipelines?limit=1", key).json, get(keyed, "/status", key).json

    assert (
        [one["pipeline_uid"] for one in listed["items"]],
        listed["total"],
        listed["next_cursor"],
    ) == ([mine], 1, None)
    assert [one["pipeline_uid"] for one in status["pipelines"]] == [mine]
    assert [worker["pipelines"] for worker in status["workers"]] in ([], [[mine]])
    assert other.encode() not in get(keyed, "/metrics", key).body
    assert b"memrelay_http_answers" not in get(keyed, "/metrics", key).body


def test_a_key_without_read_gets_no_stored_text_from_a_write(keyed: WebSystem) -> None:
    uid, root = keyed.deploy(), keyed.system.root
    writer, reader = make_key(root, "write"), make_key(root, "read", "write")
    base = f"/v1/pipelines/{uid}"
    wait_for(lambda: get(keyed, f"{base}/records", reader).status == 200, "the key is known")

    def send(method: str, path: str, body: Json, key: ApiKey) -> Answer:
        return ask(keyed.url, method, path, body, key.headers)

    record = send("POST", f"{base}/records", {"content": "secret"}, reader).json
    memory = send("POST", f"{base}/memories", {"name": "secret"}, reader).json
    entry = {"memory_id": memory["id"], "content": "The secret sky is blue"}
    written = send("POST", f"{base}/entries", entry, reader).json
    paths = {
        f"{base}/records/{record['guid']}": {"tags": ["x"]},
        f"{base}/memories/{memory['id']}": {"tags": ["x"]},
        f"{base}/entries/{written['id']}": {"tags": ["x"]},
    }

    hidden = [send("PATCH", path, body, writer) for path, body in paths.items()]
    hidden.append(send("POST", f"{base}/entries", entry, writer))
    hidden.append(send("POST", f"{base}/entries", entry | {"dry_run": True}, writer))
    soat = f"/api/v1/memories/{memory['id']}"
    hidden.append(send("PUT", soat, {"tags": []}, writer))
    hidden.append(send("POST", f"{soat}/entries", {"content": entry["content"]}, writer))
    hidden.append(send("POST", "/api/v1/memory-entries", entry, writer))
    shown = [send("PATCH", path, body, reader) for path, body in paths.items()]

    assert {answer.status for answer in [*hidden, *shown]} == {200}
    assert not any(b"secret" in answer.body for answer in hidden)
    assert hidden[0].json.keys() == {"guid", "version"} and "etag" in hidden[0].headers
    assert hidden[3].json.keys() == {"id", "memory_id", "version", "action"}
    assert all(b"secret" in answer.body for answer in shown)


def test_a_deploy_key_is_limited_to_its_pipelines_and_their_stores(keyed: WebSystem) -> None:
    mine, other = keyed.deploy(), keyed.deploy()
    key = make_key(keyed.system.root, "deploy", pipelines=(mine,))
    wait_for(lambda: get(keyed, "/status", key).status == 403, "the key is known")

    def put(uid: str, memory_id: str) -> Answer:
        return ask(
            keyed.url,
            "PUT",
            f"/v1/pipelines/{uid}",
            make_bundle(uid, *make_commands(memory_id)),
            key.headers,
        )

    assert put(mine, "instances/${pipeline_uid}/notes").status == 200
    assert put(other, "instances/${pipeline_uid}/notes").status == 404
    for memory_id in (f"instances/{other}/memories", "shared/notes", f"instances/{mine}x/memories"):
        status, detail = put(mine, memory_id).problem
        assert (status, "this memory_id is in none of them" in detail) == (403, True)
    created = [
        ask(keyed.url, "POST", "/v1/pipelines", make_bundle(uid), key.headers).status
        for uid in (other, make_uid(), "")
    ]
    assert created == [403, 403, 403]
    assert ask(keyed.url, "DELETE", f"/v1/pipelines/{other}", b"", key.headers).status == 404


def test_a_deploy_key_cannot_claim_the_webhooks_of_another_pipeline() -> None:
    hook = make_memory("write", alias="hook", senders="nobody")
    guarded = hook | {"wf_webhook_token": "env:SHOP_TOKEN"}
    path = "/api/v1/pd/webhook/shop-token/hook_/memory_write?wait=60"
    settings = {"SECRETS__ENV": "mine_1:MY_TOKEN"}
    with WebSystem(secrets={"SHOP_TOKEN": "shop-token", "MY_TOKEN": "x"}, **settings) as web_system:
        shop = web_system.deploy(guarded)
        key = make_key(web_system.system.root, "deploy", pipelines=("mine_1",))
        await_closed(web_system)

        def put(agent: Json) -> Answer:
            bundle = make_bundle("mine_1", agent)
            return ask(web_system.url, "PUT", "/v1/pipelines/mine_1", bundle, key.headers)

        refused = [
            put(hook | {name: reference}).problem
            for name in ("wf_webhook_token", "wf_webhook_secret")
            for reference in ("env:SHOP_TOKEN", f"file:{shop}/token", "file:token")
        ]
        allowed = [
            put(hook | {"wf_webhook_token": reference}).status
            for reference in ("env:MY_TOKEN", "file:${pipeline_uid}/token")
        ]

        assert {status for status, _ in refused} == {403}
        assert "may not use env:SHOP_TOKEN; write file:${pipeline_uid}/NAME" in refused[0][1]
        assert "add mine_1:NAME to secrets.env" in refused[0][1]
        assert allowed == [201, 200]
        admin = make_key(web_system.system.root, "admin", pipelines=("mine_1",))
        wait_for(lambda: get(web_system, "/status", admin).status == 403, "the key is known")

        def create(**fields: str) -> Answer:
            endpoint = {"url": "https://example.com", **fields}
            path = "/v1/pipelines/mine_1/endpoints"
            return ask(web_system.url, "POST", path, endpoint, admin.headers)

        status, detail = create(secret="env:SHOP_TOKEN").problem
        assert (status, "may not use env:SHOP_TOKEN" in detail) == (403, True)
        assert create(url=f"file:{shop}/token").status == 403
        assert create(secret="env:MY_TOKEN").status == 201
        assert web_system.post(path, "tea").status == 200
        assert web_system.system.contents(shop) == ["tea"]


def test_revoking_a_key_disconnects_its_listeners(keyed: WebSystem) -> None:
    uid, key = keyed.deploy(), make_key(keyed.system.root, "read")
    wait_for(lambda: get(keyed, "/status", key).status == 200, "the key is known")

    with Listener(keyed.url, uid, **key.headers) as listener:
        assert listener.answer.status == 101
        keyed.system.client.ask(uid, "/write tea")
        assert listener.texts(1) == ["/write tea"]

        revoke(keyed.system.root, key)
        began = time.monotonic()
        assert listener.close_frame() == (1008, "the key was revoked")
        assert time.monotonic() - began < 5 + LATE_S


def test_revoking_a_key_ends_its_waiting_requests() -> None:
    with WebSystem(worker=False) as web_system, ThreadPoolExecutor(1) as pool:
        uid, key = web_system.deploy_unserved(), make_key(web_system.system.root, "publish")
        await_closed(web_system)

        waiting = pool.submit(web_system.say, uid, "/write tea", query="?wait=60", **key.headers)
        wait_for(lambda: web_system.system.client.redis.xlen(f"pipeline:{{{uid}}}:in"), "it waits")
        revoke(web_system.system.root, key)

        answer = waiting.result()
    assert answer.problem == (401, "the key was revoked; it may still run")


def test_a_listener_needs_a_key(keyed: WebSystem) -> None:
    with Listener(keyed.url, keyed.deploy()) as listener:
        assert listener.refusal.status == 401


def test_ready_shows_reasons_only_to_keys_for_all_pipelines(keyed: WebSystem) -> None:
    confined, whole = make_key(keyed.system.root, pipelines=("a",)), make_key(keyed.system.root)
    wait_for(lambda: get(keyed, "/status", whole).status == 200, "the key is known")

    with WebSystem(worker=False) as web_system:
        keys = make_key(web_system.system.root, pipelines=("a",)), make_key(web_system.system.root)
        await_closed(web_system)
        web_system.system.server.stop()
        answers = [
            ask(web_system.url, "GET", "/ready", b"", headers)
            for headers in ({}, *(key.headers for key in keys))
        ]

    assert [answer.status for answer in answers] == [503] * 3
    assert [answer.json["checks"]["bus"] == "not ok" for answer in answers] == [True, True, False]
    assert (
        get(keyed, "/ready", confined).json
        == get(keyed, "/ready", whole).json
        == keyed.get("/ready").json
    )


def listening_on_all(system: TestSystem) -> ChildProcess:
    return start_program(
        "web",
        system.folder / "web.log",
        {
            "BUS__URL": f"unix://{system.client.socket}",
            "MEMORY__ROOT": str(system.root),
            "WEB__HOST": "0.0.0.0",
            "WEB__PORT": "0",
        },
    )


def test_without_a_key_only_loopback_is_served() -> None:
    with TestSystem() as system:
        refused = listening_on_all(system)
        assert refused.await_end() == 1
        assert "web.host is 0.0.0.0, but no key was made yet" in refused.output

        key = make_key(system.root)
        revoke(system.root, key)
        web = listening_on_all(system)
        url = web.await_event("web_ready")["url"].replace("0.0.0.0", "127.0.0.1")
        try:
            answers = [
                ask(url, "GET", "/status", b"", headers).status for headers in ({}, key.headers)
            ]
        finally:
            assert web.stop() == 0

    assert answers == [401, 401]
