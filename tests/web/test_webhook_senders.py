"""Webhooks of real senders: signatures, ids, events, handshakes and answers of each profile."""

import hashlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
from twilio.request_validator import RequestValidator

from tests.support.bundles import Json, make_agent, make_memory
from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.signing import make_secret
from tests.support.web_system import WebSystem
from tests.support.webhook_senders import (
    CASES,
    FORM_TYPE,
    SenderCase,
    base64_mac,
    mac,
    make_structured_event,
    sign_svix,
)

PUBLIC_URL = "https://memory.example.com:443/hooks"
BY_NAME = {case.name: case for case in CASES}
SECRETS = {f"SECRET_{number}": case.secret for number, case in enumerate(CASES)}
every_sender = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


class Hooks(NamedTuple):
    """A pipeline with an agent for each sender, which writes to another store."""

    web_system: WebSystem
    uid: str

    def post(
        self,
        case: SenderCase,
        body: bytes | None = None,
        *,
        secret: str = "",
        age_s: int = 0,
        query: str = "?wait=60",
        **changes: str | None,
    ) -> Answer:
        """Send a signed request. `changes` replaces headers, None removes one."""
        path = f"/webhooks/{self.uid}/{case.name}{query}"
        original, sent_at = case.body, int(time.time()) - age_s
        body = original if body is None else body
        signature = case.sign(secret or case.secret, original, sent_at, PUBLIC_URL + path)
        headers = {"Content-Type": case.content_type} | signature | case.headers
        named = {name.replace("_", "-"): value for name, value in changes.items()}
        kept = {name: value for name, value in (headers | named).items() if value is not None}
        return ask(self.web_system.url, "POST", path, body, kept)

    def count(self, name: str) -> int:
        """Return the number of records after all work is done."""
        self.web_system.system.client.await_quiet(self.uid)
        return len(self.web_system.system.contents(self.uid, name))


def make_hook(name: str, sender: object, **keys: object) -> Json:
    store = f"instances/${{pipeline_uid}}/{name}"
    hook = make_memory("write", senders="nobody", memory_id=store)
    return hook | {"agent_alias": name, "wf_webhook_sender": sender} | keys


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    secrets = SECRETS | {
        "TWO": f"account token\n{make_secret('two')}",
        "VERIFY": "verify-me",
        "TOKEN": "tea-with-milk",
        "HEX": "00ff10",
        "STANDARD": make_secret("one"),
    }
    with WebSystem(secrets=secrets, WEB__PUBLIC_URL=PUBLIC_URL, WEB__RATE="0") as web_system:
        make_key(web_system.system.root)  # otherwise all local programs may call each webhook
        await_closed(web_system)
        yield web_system


@pytest.fixture(scope="module")
def hooks(web_system: WebSystem) -> Hooks:
    agents = [
        make_hook(case.name, case.name, wf_webhook_secret=f"env:SECRET_{number}")
        for number, case in enumerate(CASES)
    ]
    return Hooks(web_system, web_system.deploy(*agents))


@every_sender
def test_a_request_that_the_sender_did_not_sign_is_refused(hooks: Hooks, case: SenderCase) -> None:
    before = hooks.count(case.name)
    old, new = case.changed
    answers = [hooks.post(case, case.body.replace(old, new))] if old else []
    if case.signature:
        answers += [
            hooks.post(case, secret=case.other_secret),
            hooks.post(case, **{case.signature: None}),
            hooks.post(case, **{case.signature: "junk"}),
            hooks.post(case, **{case.signature: "ü=,é"}),
        ]
    if case.has_timestamp:
        answers += [hooks.post(case, age_s=400), hooks.post(case, age_s=-400)]

    assert [answer.status for answer in answers] == [401] * len(answers)
    assert not any(case.secret.encode() in answer.body for answer in answers)
    assert hooks.count(case.name) == before


@every_sender
def test_a_delivery_is_one_record_with_its_event(hooks: Hooks, case: SenderCase) -> None:
    first, second = hooks.post(case), hooks.post(case)

    assert (first.status, second.status) == (200, 200), first.body
    assert hooks.count(case.name) == (1 if case.same_id else 2)
    if case.same_id:
        assert first.json == second.json


@pytest.mark.parametrize("name", ["github", "stripe"])
def test_64_deliveries_at_once_have_one_effect(hooks: Hooks, name: str) -> None:
    case, before = BY_NAME[name], hooks.count(name)
    body = case.body.replace(b"evt_1Abc", b"evt_many")

    def send(_: int) -> Answer:
        signature = case.sign(case.secret, body, int(time.time()), "")
        changes = {key.replace("-", "_"): value for key, value in signature.items()}
        return hooks.post(case, body, X_GitHub_Delivery="many", query="", **changes)

    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(send, range(64)))

    assert {(answer.status, answer.body) for answer in answers} == {(202, answers[0].body)}
    assert hooks.count(name) == before + 1


def test_the_message_tells_what_its_sender_wrote(web_system: WebSystem) -> None:
    case = BY_NAME["github"]
    relay = make_agent("relay", "regex_filter", {"pattern": ""}, senders="nobody")
    hook = {"agent_alias": "github", "wf_webhook_sender": "github"}
    secret = {"wf_webhook_secret": f"env:SECRET_{CASES.index(case)}"}
    uid = web_system.deploy(relay | hook | secret)

    answer = Hooks(web_system, uid).post(case, query="")

    assert (answer.status, answer.json) == (202, {"message_id": "72d3162e-cc78-11e3"})
    web_system.system.client.await_quiet(uid)
    (entry,) = web_system.system.client.log(uid)
    assert entry.envelope["args"][0]["webhook"] == {
        "event": "issues",
        "sender": "github",
        "delivery_id": "72d3162e-cc78-11e3",
        "headers": {"x-github-event": "issues", "x-github-delivery": "72d3162e-cc78-11e3"},
        "verified": True,
    }


def test_two_agents_and_two_senders_share_no_ids(web_system: WebSystem) -> None:
    case = BY_NAME["github"]
    secret = f"env:SECRET_{CASES.index(case)}"
    agents = [make_hook(name, "github", wf_webhook_secret=secret) for name in ("github", "other")]
    hooks = Hooks(web_system, web_system.deploy(*agents))

    hooks.post(case)
    sign = case.sign(case.secret, case.body, 0, "") | case.headers
    web_system.webhook(hooks.uid, "other", case.body, query="?wait=60", **sign)

    assert [hooks.count("github"), hooks.count("other")] == [1, 1]


def test_a_refused_delivery_does_not_use_up_its_id(hooks: Hooks) -> None:
    case, before = BY_NAME["github"], hooks.count("github")

    assert hooks.post(case, secret="wrong", X_GitHub_Delivery="used up?").status == 401
    assert hooks.post(case, X_GitHub_Delivery="used up?").status == 200
    assert hooks.count("github") == before + 1


def test_events_that_share_an_id_are_all_stored(hooks: Hooks) -> None:
    """Status callbacks have one MessageSid, and GitLab's recursive hooks one event UUID."""
    twilio, gitlab = BY_NAME["twilio"], BY_NAME["gitlab"]
    before = [hooks.count("twilio"), hooks.count("gitlab")]
    for status in ("queued", "delivered", "delivered"):
        body = f"MessageSid=SM9&MessageStatus={status}".encode()
        url = f"{PUBLIC_URL}/webhooks/{hooks.uid}/twilio?wait=60"
        signature = twilio.sign(twilio.secret, body, 0, url)["X-Twilio-Signature"]
        changes = {"X_Twilio_Signature": signature, "I_Twilio_Idempotency_Token": None}
        assert hooks.post(twilio, body, **changes).status == 200
    for action in ("open", "close", "close"):
        hooks.post(gitlab, json.dumps({"action": action}).encode())

    assert hooks.count("twilio") == before[0] + 2
    assert hooks.count("gitlab") == before[1] + 2


def test_an_ignored_event_is_answered_and_not_stored(hooks: Hooks) -> None:
    before = hooks.count("github")

    answer = hooks.post(BY_NAME["github"], X_GitHub_Event="ping", query="")

    assert (answer.status, answer.json) == (200, {"ignored": "ping"})
    assert hooks.count("github") == before


def test_a_form_of_github_is_signed_as_it_was_sent(hooks: Hooks) -> None:
    case = BY_NAME["github"]
    body = b"payload=%7B%22title%22%3A%22M%5Cu00fcller%22%7D"
    signature = "sha256=" + mac(case.secret, body).hex()

    changes = {"X_Hub_Signature_256": signature, "X_GitHub_Delivery": "form"}
    answer = hooks.post(case, body, Content_Type=FORM_TYPE, **changes)

    assert answer.status == 200
    hooks.count("github")
    assert "Müller" in hooks.web_system.system.contents(hooks.uid, "github")[-1]


def test_a_foreign_signature_gets_the_same_answer_for_each_agent(hooks: Hooks) -> None:
    case, path = BY_NAME["github"], f"/webhooks/{hooks.uid}"
    signature = case.sign("wrong", case.body, 0, "")
    paths = (f"{path}/github", f"{path}/stripe", f"{path}/standard", f"{path}/no", "/webhooks/no/x")
    answers = [hooks.web_system.post(one, case.body, **signature).problem for one in paths]

    assert answers == answers[:1] * 5
    assert answers[0][0] == 401
    assert "X-Hub-Signature-256" in answers[0][1]
    assert "wf_webhook_sender" not in answers[0][1]


def test_svix_headers_are_those_of_standard_webhooks(hooks: Hooks) -> None:
    case, body = BY_NAME["standard"], b'{"type": "svix"}'
    headers = sign_svix(case.secret, body, int(time.time()), "")
    path = f"/webhooks/{hooks.uid}/standard"

    before = hooks.count("standard")
    answers = [hooks.web_system.post(path, body, **headers) for _ in range(2)]

    assert [(answer.status, answer.json) for answer in answers] == [
        (202, {"message_id": "msg_2Lml"})
    ] * 2
    assert hooks.web_system.post(path, b"{}", **headers).status == 401
    assert hooks.count("standard") == before + 1


def test_a_structured_cloud_event_has_its_id_in_the_body(web_system: WebSystem) -> None:
    hook = make_hook("cloudevents", "cloudevents", wf_webhook_token="env:TOKEN")
    hooks = Hooks(web_system, web_system.deploy(hook))
    headers, body = make_structured_event({"cups": 2})
    path = f"/webhooks/{hooks.uid}/cloudevents"

    for _ in range(2):
        sent = web_system.post(path, body, Authorization="Bearer tea-with-milk", **headers)
        assert sent.status == 202
    assert web_system.post(path, body, **headers).status == 401
    assert hooks.count("cloudevents") == 1


def test_twilio_signs_a_json_body_by_its_digest_in_the_query(web_system: WebSystem) -> None:
    hook = make_hook("twilio", "twilio", wf_webhook_secret="env:TWO")
    hooks = Hooks(web_system, web_system.deploy(hook))
    body = b'{"note": "tea"}'
    rule = {"X_Twilio_Webhooks_Signature_Settings": "key=k1,algorithm=HMAC_SHA256"}

    def post(secret: str, digest: str, algorithm: str, **headers: str) -> int:
        path = f"/webhooks/{hooks.uid}/twilio?bodySHA256={digest}"
        url = PUBLIC_URL.replace(":443", "") + path  # Twilio signs it with or without the port
        signature = RequestValidator(secret).compute_signature(url, {}, algorithm)
        return web_system.post(path, body, X_Twilio_Signature=signature, **headers).status

    digest, shared = hashlib.sha256(body).hexdigest(), make_secret("two")
    assert post("account token", digest, "HMAC_SHA1") == 200
    assert post("account token", hashlib.sha256(b"x").hexdigest(), "HMAC_SHA1") == 401
    assert post(shared, digest, "HMAC_SHA256", **rule) == 200
    assert post("account token", digest, "HMAC_SHA256", **rule) == 401


def test_a_sender_that_a_bundle_describes_is_checked_by_its_description(
    web_system: WebSystem,
) -> None:
    signature = {
        "header": "X-Acme-Signature",
        "algorithm": "sha512",
        "encoding": "base64",
        "prefix": "s1=",
        "separator": " ",
        "signed": "{id}:{timestamp}:{header:X-Acme-App}:{body}",
        "timestamp": "header:X-Acme-Time",
        "tolerance_s": 60,
        "key": "hex",
    }
    sender = {"signature": signature, "id": "header:X-Acme-Id", "event": "body:kind"}
    hook = make_hook("acme", sender | {"ignore": ["hello"]}, wf_webhook_secret="env:HEX")
    hooks = Hooks(web_system, web_system.deploy(hook))

    def post(age_s: int = 0, app: str = "app", kind: str = "made") -> Answer:
        body, at = json.dumps({"kind": kind}).encode(), str(int(time.time()) - age_s)
        made = base64_mac(bytes.fromhex("00ff10"), f"7:{at}:app:".encode() + body, "sha512")
        sent = {"X_Acme_Signature": f"s1=AAAA s1={made}", "X_Acme_Time": at, "X_Acme_Id": "7"}
        return web_system.webhook(hooks.uid, "acme", body, X_Acme_App=app, **sent)

    assert [post().status for _ in range(2)] == [202, 202]
    assert post(kind="hello").json == {"ignored": "hello"}
    assert "by more than 60 s" in post(age_s=90).problem[1]
    assert "no X-Acme-Signature matches" in post(app="other").problem[1]
    assert hooks.count("acme") == 1


def test_a_token_in_the_path_opens_and_the_profile_reads_the_rest(web_system: WebSystem) -> None:
    hook = make_hook("dropbox", "dropbox", wf_webhook_token="env:TOKEN")
    hooks = Hooks(web_system, web_system.deploy(hook))
    path = "/api/v1/pd/webhook/tea-with-milk/dropbox/memory_write"

    answers = [
        web_system.get(f"{path}?challenge=abc"),
        web_system.post(path, b'{"list_folder": {}}'),
    ]

    assert [(answer.status, answer.body) for answer in answers] == [(200, b"abc"), (200, b"")]
    assert web_system.get(path.replace("milk", "oil") + "?challenge=abc").status == 405
    assert hooks.count("dropbox") == 1


def test_networks_admit_their_addresses_alone(web_system: WebSystem) -> None:
    agents = [
        make_hook("near", "cloudevents", wf_webhook_networks=["127.0.0.0/8", "::1/128"]),
        make_hook("far", "cloudevents", wf_webhook_networks=["203.0.113.0/24"]),
    ]
    uid = web_system.deploy(*agents)

    assert web_system.webhook(uid, "near", b"{}").status == 202
    assert web_system.webhook(uid, "far", b"{}").status == 401


def make_zoom_validation(token: str) -> bytes:
    event = {"event": "endpoint.url_validation", "payload": {"plainToken": token}}
    return json.dumps(event).encode()


def make_signed_body(case: SenderCase, body: bytes) -> Json:
    """Return the signature headers of another body of a sender."""
    signed = case.sign(case.secret, body, int(time.time()), PUBLIC_URL)
    return {name.replace("-", "_"): value for name, value in signed.items()}


@pytest.mark.parametrize(
    ("name", "body", "status", "answer"),
    [
        ("slack", b'{"type": "url_verification", "challenge": "3eZbrw1a"}', 200, b"3eZbrw1a"),
        ("slack", b'{"type": "url_verification", "challenge": "<b>"}', 400, None),
        ("discord", b'{"type": 1, "id": "9"}', 200, b'{"type":1}'),
        ("discord", b'{"type": 0, "version": 1}', 204, b""),
        ("zoom", make_zoom_validation("qg"), 200, None),
        ("zoom", make_zoom_validation("v0:1:"), 400, None),
    ],
)
def test_a_signed_handshake_is_verified_answered_and_not_stored(
    hooks: Hooks, name: str, body: bytes, status: int, answer: bytes | None
) -> None:
    case, before = BY_NAME[name], hooks.count(name)

    got = hooks.post(case, body, query="", **make_signed_body(case, body))

    assert (got.status, got.body) == (status, got.body if answer is None else answer)
    if name == "zoom" and status == 200:
        encrypted = mac(case.secret, b"qg").hex()
        assert got.json == {"plainToken": "qg", "encryptedToken": encrypted}
    assert hooks.post(case, body, query="").status == 401  # signed for another body
    assert hooks.count(name) == before


def test_a_handshake_that_nobody_signs_is_answered_as_plain_text(web_system: WebSystem) -> None:
    secrets = {"wf_webhook_secret": "env:SECRET_1"}
    agents = [make_hook(name, name, **secrets) for name in ("dropbox", "trello", "cloudevents")]
    meta = make_hook("meta", "meta", wf_webhook_verify="env:VERIFY", **secrets)
    graph = make_hook("graph", "microsoft-graph", **secrets)
    uid = web_system.deploy(*agents, meta, graph)

    def call(method: str, path: str, **headers: str) -> tuple[int, bytes]:
        answer = ask(web_system.url, method, f"/webhooks/{uid}/{path}", b"", headers)
        if method == "GET" and answer.status == 200:
            assert answer.headers["content-type"].startswith("text/plain")
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["content-security-policy"] == "sandbox"
        return answer.status, answer.body if answer.status == 200 else b""

    subscribe = "meta?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token="
    assert call("GET", f"{subscribe}verify-me") == (200, b"1158201444")
    assert call("GET", f"{subscribe}wrong") == (405, b"")
    assert call("GET", "dropbox?challenge=abc") == (200, b"abc")
    assert call("GET", "dropbox?challenge=%3Cb%3E") == (400, b"")
    assert call("POST", "graph?validationToken=a%3A%20b") == (400, b"")
    assert call("POST", "graph?validationToken=a%3Ab") == (200, b"a:b")
    assert call("HEAD", "trello") == (200, b"")
    assert call("OPTIONS", "cloudevents", WebHook_Request_Origin="eventgrid.azure.net")[0] == 200
    # The verify token travels in URLs, so it opens nothing else.
    assert web_system.webhook(uid, "meta", b"{}", Authorization="Bearer verify-me").status == 401
    web_system.system.client.await_quiet(uid)
    assert web_system.system.contents(uid, "graph") == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_other_methods_tell_nobody_which_webhooks_exist(hooks: Hooks, method: str) -> None:
    paths = (f"{hooks.uid}/github", f"{hooks.uid}/dropbox", f"{hooks.uid}/no", "no/x")
    answers = [ask(hooks.web_system.url, method, f"/webhooks/{path}") for path in paths]

    assert [(one.status, one.headers["allow"]) for one in answers] == [(405, "POST")] * 4
    assert {one.body for one in answers} == {answers[0].body}


@pytest.mark.parametrize(
    ("name", "kind", "answer"),
    [
        ("slack", "text/plain; charset=utf-8", b""),
        ("twilio", "text/xml; charset=utf-8", b"<Response/>"),
        ("discord", "application/json", b'{"type":5}'),
        ("meta", "text/plain; charset=utf-8", b""),
    ],
)
def test_a_sender_gets_the_answer_that_it_expects(
    hooks: Hooks, name: str, kind: str, answer: bytes
) -> None:
    got = hooks.post(BY_NAME[name], query="")

    assert (got.status, got.body) == (200, answer)
    assert got.headers["content-type"].startswith(kind.partition(";")[0])


def test_a_slash_command_is_answered_with_the_result(web_system: WebSystem) -> None:
    case = BY_NAME["slack"]
    answer = {"wf_webhook_secret": f"env:SECRET_{CASES.index(case)}"}
    hook = make_hook("slack", "slack", wf_webhook_answer={"wait_s": 2.5}, **answer)
    hooks = Hooks(web_system, web_system.deploy(hook))
    body = b"command=%2Fnote&text=a+%3C+b&trigger_id=13345224609.8534564800"

    changes = make_signed_body(case, body) | {"Content_Type": FORM_TYPE}
    first, second = (hooks.post(case, body, query="", **changes) for _ in range(2))

    assert first.json["response_type"] == "ephemeral"
    assert "guid" in first.json["text"]
    assert second.json == first.json
    assert hooks.count("slack") == 1


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("Saved: {{ guid | truncate(3, true, '') }}.", "Saved: 01"),
        ("{{ guid | truncate(2, true, 9) }}", ""),
    ],
)
def test_a_template_makes_the_answer_of_the_result(
    web_system: WebSystem, template: str, text: str
) -> None:
    """One that fails leaves the usual answer."""
    case = BY_NAME["slack"]
    answer = {"wf_webhook_secret": f"env:SECRET_{CASES.index(case)}"}
    spec = {"wait_s": 2.5, "template": template}
    hook = make_hook("slack", "slack", wf_webhook_answer=spec, **answer)
    hooks = Hooks(web_system, web_system.deploy(hook))
    body = b"command=%2Fnote&text=tea&trigger_id=13345224609.1"

    got = hooks.post(
        case, body, query="", **make_signed_body(case, body) | {"Content_Type": FORM_TYPE}
    )

    assert got.status == 200
    assert (got.json["text"] if got.body else "").startswith(text)
    assert bool(got.body) == bool(text)


def test_a_secret_that_a_sender_puts_into_the_body_is_not_stored(hooks: Hooks) -> None:
    case = BY_NAME["microsoft-graph"]

    assert hooks.post(case).status == 200
    hooks.count(case.name)
    content = hooks.web_system.system.contents(hooks.uid, case.name)[-1]
    assert case.secret not in content
    assert '"clientState": "[secret]"' in content
