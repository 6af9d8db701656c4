"""The list of requests to webhooks: in REST, on the bus and in metrics."""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from memrelay.pipelines.check import check
from memrelay.pipelines.webhook_senders import SENDERS
from memrelay.web.api.webhooks import listed
from memrelay.web.services import get_services
from memrelay.web.webhooks.request import HookRequest
from memrelay.web.webhooks.requests import NOTE
from tests.support.bundles import Json, make_bundle, make_memory, make_uid
from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.routes import app_for
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem
from tests.support.webhook_senders import mac

SECRET, TOKEN, VERIFY, CHALLENGE = "sesame-secret", "tea-with-milk", "verify-me", "say-this-back"
BODY = b'{"action": "opened", "note": "words-of-the-body"}'


class Hooks(NamedTuple):
    """A pipeline with webhooks, and the headers of a key that may do everything."""

    web_system: WebSystem
    uid: str
    key: dict[str, str]

    def post(self, alias: str, body: bytes = BODY, path: str = "", **headers: str) -> Answer:
        path = path or f"/webhooks/{self.uid}/{alias}"
        return ask(self.web_system.url, "POST", path, body, headers)

    def post_github(self, delivery: str, *, secret: str = SECRET, body: bytes = BODY) -> Answer:
        signature = f"sha256={mac(secret, body).hex()}"
        return self.post(
            "github",
            body,
            Content_Type="application/json",
            X_GitHub_Event="issues",
            X_GitHub_Delivery=delivery,
            X_Hub_Signature_256=signature,
        )

    def read(self, query: str = "") -> dict[str, Json]:
        """Return the webhooks by agent."""
        path = f"/v1/pipelines/{self.uid}/webhooks{query}"
        answer = self.web_system.get(path, **self.key)
        assert answer.status == 200, answer
        return {item["agent"]: item for item in answer.json["items"]}

    def await_row(self, alias: str, **fields: object) -> Json:
        """Wait for a request with these fields, and return it."""
        found: list[Any] = []

        def is_listed() -> bool:
            rows = self.read(f"?agent={alias}&requests=200")[alias]["requests"]
            found[:] = [row for row in rows if fields.items() <= row.items()]
            return bool(found)

        wait_for(is_listed, f"a request with {fields} is listed")
        row: Json = found[0]
        return row

    def counts(self) -> dict[tuple[str, str], float]:
        """Return the counted requests by agent and reason."""
        text = self.web_system.get("/metrics", **self.key).body.decode()
        form = (
            r'memrelay_webhook_requests_total\{agent="(\w+)",'
            rf'pipeline="{self.uid}",reason="(\w+)"\}} (\S+)'
        )
        return {(agent, reason): float(count) for agent, reason, count in re.findall(form, text)}

    def count_unknown(self) -> float:
        text = self.web_system.get("/metrics", **self.key).body.decode()
        return float(re.findall(r"\nmemrelay_webhook_requests_unknown_total (\S+)", text)[0])


def make_hook(name: str, **keys: object) -> Json:
    return make_memory("write", senders="nobody") | {"agent_alias": name} | keys


@pytest.fixture(scope="module")
def hooks() -> Iterator[Hooks]:
    secrets = {"SECRET": SECRET, "TOKEN": TOKEN, "VERIFY": VERIFY}
    signed = {"wf_webhook_secret": "env:SECRET"}
    with WebSystem(secrets=secrets, WEB__RATE="0") as web_system:
        key = make_key(web_system.system.root)
        await_closed(web_system)
        uid = web_system.deploy(
            make_hook("plain"),
            make_hook("token", wf_webhook_token="env:TOKEN"),
            make_hook("github", wf_webhook_sender="github", wf_webhook_bytes=2000, **signed),
            make_hook("slack", wf_webhook_sender="slack", **signed),
            make_hook("meta", wf_webhook_sender="meta", wf_webhook_verify="env:VERIFY", **signed),
            make_hook("unset", wf_webhook_sender="github", wf_webhook_secret="env:GONE"),
            make_hook("flooded", wf_webhook_token="env:TOKEN"),
            make_hook("small", wf_webhook_token="env:TOKEN", wf_webhook_bytes=2000),
            make_hook("gzip", wf_webhook_sender="github", wf_webhook_token="env:TOKEN"),
        )
        yield Hooks(web_system, uid, key.headers)


def test_an_accepted_request_is_listed_with_its_message(hooks: Hooks) -> None:
    answer = hooks.post_github("d-1")

    assert answer.status == 202
    row = hooks.await_row("github", delivery_id="d-1")
    assert (row["status"], row["method"], row["outcome"]) == (202, "POST", "accepted")
    assert (row["verdict"], row["event"], row["reason"]) == ("signed", "issues", "")
    assert row["headers"] == {"x-github-event": "issues", "x-github-delivery": "d-1"}
    assert re.fullmatch(r"\d+-\d+", row["message_id"])
    trace = f"/v1/pipelines/{hooks.uid}/messages/{row['message_id']}"
    assert hooks.web_system.get(trace, **hooks.key).status == 200


def test_the_operator_reads_why_a_signature_was_refused_and_the_stranger_does_not(
    hooks: Hooks,
) -> None:
    signed = {"X_Hub_Signature_256": f"sha256={mac(SECRET, BODY).hex()}"}
    answers = [
        hooks.post(alias, X_GitHub_Delivery=f"why-{alias}", **signed)
        for alias in ("unset", "slack", "unknown")
    ]
    hooks.post_github("why-wrong", secret="another")

    assert [one.problem for one in answers] == [answers[0].problem] * 3
    assert "GONE" not in answers[0].problem[1] and "wf_webhook" not in answers[0].problem[1]
    unset = hooks.await_row("unset", status=401)["reason"]
    assert unset.endswith("cannot be used on the server: env:GONE is not set")
    wrong = hooks.await_row("github", delivery_id="why-wrong")["reason"]
    assert "the secret differs" in wrong and "wf_webhook_sender" not in wrong
    other = hooks.await_row("slack", status=401)["reason"]
    assert 'accepts signatures of slack; set "wf_webhook_sender": "github" or "meta"' in other


def test_a_refused_request_is_listed_with_its_reason(hooks: Hooks) -> None:
    hooks.post_github("d-2", secret="another")
    hooks.post_github("d-3", body=b'"' + b"x" * 3000 + b'"')

    forged = hooks.await_row("github", delivery_id="d-2")
    assert (forged["status"], forged["outcome"], forged["verdict"]) == (401, "refused", "invalid")
    assert "X-Hub-Signature-256" in forged["reason"]
    assert (forged["event"], forged["message_id"]) == ("issues", "")
    long = hooks.await_row("github", delivery_id="d-3")
    assert (long["status"], long["outcome"]) == (413, "refused")
    assert "2000" in long["reason"]
    assert hooks.counts()["github", "unauthorized"] >= 1
    assert hooks.counts()["github", "too_large"] == 1


def test_a_refused_body_of_an_authenticated_sender_leaves_a_dead_letter(hooks: Hooks) -> None:
    body = b"words-of-the-body" * 200
    for _ in range(2):
        for ident, token in (("lost-1", TOKEN), ("lost-2", "guess")):
            headers = {"webhook_id": ident, "Authorization": f"Bearer {token}"}
            hooks.post("small", body, **headers)
    headers = {"Content_Encoding": "gzip", "X_GitHub_Event": "issues"}
    hooks.post("gzip", b"words-of-the-body", Authorization=f"Bearer {TOKEN}", **headers)

    path = f"/v1/dead-letters?pipeline={hooks.uid}"
    letters: dict[str, Json] = {}

    def are_there() -> bool:
        items = hooks.web_system.get(path, **hooks.key).json["items"]
        letters.update({item["agent"]: item for item in items})
        return [item["agent"] for item in items if item["agent"] in ("small", "gzip")] == [
            "small",
            "gzip",
        ]

    wait_for(are_there, "the dead letters")
    assert letters["small"]["error"].startswith("the webhook was refused with 413: the body has")
    assert letters["gzip"]["error"].endswith("\nx-github-event: issues")
    assert {item["bytes"] for item in letters.values()} == {0}
    assert all(item["bundle"] for item in letters.values())
    address = f"/dead-letters/{hooks.uid}/{letters['small']['id']}"
    assert b"The message was not kept." in hooks.web_system.get(address, **hooks.key).body
    replayed = hooks.web_system.post(f"/v1{address}/replay", **hooks.key)
    assert replayed.problem[0] == 409
    wait_for(
        lambda: hooks.web_system.get(f"/v1{address}", **hooks.key).json["attempts"] == 2,
        "both tries of one delivery are one dead letter",
    )


def test_an_agent_without_sender_and_secret_has_a_list_too(hooks: Hooks) -> None:
    hooks.post("plain", webhook_id="d-4", **hooks.key)
    hooks.post("plain")

    row = hooks.await_row("plain", delivery_id="d-4")
    assert (row["status"], row["verdict"], row["event"]) == (202, "key", "")
    assert row["message_id"]
    hooks.await_row("plain", status=401, verdict="none")
    assert hooks.counts()["plain", "accepted"] == 1


def test_a_webhook_names_its_url_and_the_references_of_its_secrets(hooks: Hooks) -> None:
    found = hooks.read()

    assert list(found) == [*sorted(found.keys() - {"plain"}), "plain"] and len(found) == 9
    assert found["github"]["url"] == f"{hooks.web_system.url}/webhooks/{hooks.uid}/github"
    assert (found["github"]["sender"], found["github"]["secrets"]) == ("github", ["env:SECRET"])
    assert (found["token"]["sender"], found["token"]["token"]) == ("standard", "env:TOKEN")
    assert found["plain"]["secrets"] == []


def test_no_row_has_a_secret_a_token_a_challenge_or_a_body(hooks: Hooks) -> None:
    kilroy = f"/api/v1/pd/webhook/{TOKEN}/token/memory_write"
    hooks.post("token", path=kilroy)
    hooks.post("token", path=kilroy + "?wait=junk")
    hooks.post("token", path=kilroy.replace("memory_write", "other"))
    hooks.post("token", Authorization=f"Bearer {TOKEN}")
    hooks.post("token", b'{"args": [{"text": 5}], "words-of-the-body": 1}', path=kilroy)
    for token in (VERIFY, "wrong-" + VERIFY):
        path = f"/webhooks/{hooks.uid}/meta?hub.mode=subscribe&hub.verify_token={token}"
        hooks.web_system.get(f"{path}&hub.challenge={CHALLENGE}")
    body = b'{"type":"url_verification","challenge":"%b"}' % CHALLENGE.encode()
    sent_at = int(time.time())
    signed = mac(SECRET, b"v0:%d:%b" % (sent_at, body)).hex()
    for signature in (f"v0={signed}", "v0=junk"):
        time_header = {"X_Slack_Request_Timestamp": f"{sent_at}"}
        hooks.post("slack", body, X_Slack_Signature=signature, **time_header)

    hooks.await_row("token", status=400)
    hooks.await_row("token", status=404)
    hooks.await_row("meta", outcome="handshake", status=200)
    hooks.await_row("meta", outcome="refused", status=405)
    hooks.await_row("slack", outcome="handshake", verdict="signed", status=200)
    hooks.await_row("slack", outcome="refused", status=401)
    redis = hooks.web_system.system.client.redis
    keys = redis.keys(f"pipeline:*{hooks.uid}*:webhooks:*")
    assert len(keys) >= 5
    text = repr([redis.xrange(key) for key in keys])
    text += hooks.web_system.get("/metrics", **hooks.key).body.decode()
    for word in (SECRET, TOKEN, VERIFY, CHALLENGE, signed, "words-of-the-body"):
        assert word not in text


def test_a_flood_of_strangers_neither_fills_the_list_nor_hides_accepted_ones(hooks: Hooks) -> None:
    hooks.post("flooded", webhook_id="before", Authorization=f"Bearer {TOKEN}")
    began = time.monotonic()
    for _ in range(60):
        hooks.post("flooded", Authorization="Bearer guess")
    seconds = int(time.monotonic() - began) + 2

    assert hooks.counts()["flooded", "unauthorized"] == 60
    hooks.await_row("flooded", status=401)
    rows = hooks.read("?agent=flooded&requests=200")["flooded"]["requests"]
    assert [row["delivery_id"] for row in rows if row["outcome"] == "accepted"] == ["before"]
    assert 5 <= len(rows) - 1 <= 5 * seconds


def test_the_streams_keep_100_rows_and_expire(hooks: Hooks) -> None:
    redis = hooks.web_system.system.client.redis
    for number in range(110):
        hooks.post("flooded", webhook_id=f"n-{number}", Authorization=f"Bearer {TOKEN}")

    hooks.await_row("flooded", delivery_id="n-109")
    (key,) = redis.keys(f"pipeline:*{hooks.uid}*:webhooks:accepted:flooded")
    assert redis.xlen(key) == 100
    assert 0 < redis.ttl(key) <= 30 * 86_400


def test_unknown_webhooks_are_only_counted(hooks: Hooks) -> None:
    before = hooks.count_unknown()

    hooks.post("x", path=f"/webhooks/{hooks.uid}/stranger")
    hooks.post("x", path="/webhooks/nowhere/stranger")
    hooks.post("x", path="/api/v1/pd/webhook/guess/stranger/memory_write")

    assert hooks.count_unknown() == before + 3
    text = hooks.web_system.get("/metrics", **hooks.key).body
    assert b"stranger" not in text
    assert b"nowhere" not in text


def test_a_key_of_another_pipeline_sees_no_requests(hooks: Hooks) -> None:
    hooks.post_github("d-5")
    other = make_key(hooks.web_system.system.root, "read", pipelines=(make_uid(),)).headers
    path = f"/v1/pipelines/{hooks.uid}/webhooks"
    wait_for(
        lambda: hooks.web_system.get("/metrics", **other).status == 200, "the new key is known"
    )

    assert hooks.web_system.get(path, **other).status == 404
    metrics = hooks.web_system.get("/metrics", **other).body
    assert hooks.uid.encode() not in metrics
    assert b"memrelay_webhook_requests_unknown" not in metrics
    assert hooks.web_system.get(path).status == 401


def test_several_web_servers_write_one_list(hooks: Hooks) -> None:
    first = hooks.web_system.url
    hooks.web_system.start_web()
    second = hooks.web_system.url
    for number, url in enumerate((first, second)):
        headers = {"webhook_id": f"of-{number}", "Authorization": f"Bearer {TOKEN}"}
        ask(url, "POST", f"/webhooks/{hooks.uid}/token", b"tea", headers)

    hooks.await_row("token", delivery_id="of-0")
    hooks.await_row("token", delivery_id="of-1")


def test_the_number_of_requests_is_bounded(hooks: Hooks) -> None:
    path = f"/v1/pipelines/{hooks.uid}/webhooks"
    hooks.post("plain")
    hooks.await_row("plain", status=401)
    assert hooks.read("?requests=0&agent=plain")["plain"]["requests"] == []
    assert len(hooks.read("?requests=1&agent=plain")["plain"]["requests"]) == 1
    for query in ("?requests=201", "?requests=-1", "?requests=x", "?request=1"):
        assert hooks.web_system.get(path + query, **hooks.key).status == 400
    assert hooks.web_system.get(path + "?agent=nobody", **hooks.key).status == 404


def test_an_unexpected_error_is_counted(tmp_path: Path) -> None:
    bundle = check(json.dumps(make_bundle(make_uid(), make_hook("plain"))).encode()).bundle
    assert bundle is not None

    async def call() -> list[tuple[str, str, str]]:
        request = make_mocked_request("POST", "/webhooks/x/plain", app=app_for(tmp_path))

        @listed
        async def fail(request: web.Request) -> web.StreamResponse:
            request[NOTE].uid, request[NOTE].agent = "x", bundle.agents[0]
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail(request)
        return list(get_services(request).webhook_requests.counts)

    assert asyncio.run(call()) == [("x", "plain", "internal_error")]


def test_only_headers_tell_of_a_body_that_is_not_read(tmp_path: Path) -> None:
    headers = {"X-Form-Id": "7", "X-Digest": "8"}
    request = make_mocked_request("POST", "/x", headers=headers, app=app_for(tmp_path))
    hook = HookRequest(request, b"", SENDERS["github"])

    assert hook.find_in_head(("digest", "form", "body:id", "header:X-Form-Id")) == "7"
    assert hook.find_in_head(("{header:X-Digest} {body:id}", "{header:X-Digest}!")) == "8!"
