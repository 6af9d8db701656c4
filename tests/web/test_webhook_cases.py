"""Requests as users of comparable systems reported them: GitHub, Stripe, Slack and Telegram."""

import hashlib
import hmac
import time
from collections.abc import Iterator

import pytest
import stripe
from slack_sdk.signature import SignatureVerifier

from tests.support.bundles import Json, make_agent, make_memory, make_relay
from tests.support.http import Answer
from tests.support.web_system import WebSystem
from tests.support.webhook_senders import FORM_TYPE

SECRET = "It's a Secret to Everybody"
# With the `\u` escape as the sender writes it.
GITHUB_FORM = (
    b"payload=%7B%22action%22%3A+%22opened%22%2C+%22issue%22%3A+%7B%22number%22%3A+7%2C+%22body%22"
    b"%3A+%22M%5Cu00fcller+is+not+found%22%7D%7D"
)
GITHUB_PING = b'{"zen": "Keep it logically awesome.", "hook_id": 1}'
STRIPE = b'{"id": "evt_1Abc", "object": "event", "type": "invoice.paid", "data": {"amount": 1200}}'
SLACK_EVENT = (
    b'{"token": "t0ken", "team_id": "T1", "event": {"type": "message", "text": "/write door code '
    b'is 4711", "user": "U1"}, "type": "event_callback", "event_id": "Ev01"}'
)
SLACK_CHALLENGE = b'{"token": "t0ken", "challenge": "3eZbrw1aBm2r", "type": "url_verification"}'
TELEGRAM = (
    '{"update_id": 987001, "message": {"message_id": 5, "from": {"id": 7, "first_name": "Ada"}, '
    '"date": 1771000000, "text": "/write Zählerstand 1234"}}'
).encode()
MATTERMOST = b'{"token": "x", "user_name": "ada", "post_id": "p1", "text": "/write the key"}'


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(secrets={"SECRET": SECRET, "TOKEN": "tea"}) as web_system:
        yield web_system


def deploy_inbox(web_system: WebSystem, sender: str) -> str:
    """Deploy an inbox that keeps whole bodies."""
    hook = make_memory("write", senders="nobody")
    keys = {"agent_alias": "inbox", "wf_webhook_sender": sender, "wf_webhook_secret": "env:SECRET"}
    return web_system.deploy(hook | keys, make_memory("search", senders="User"))


def deploy_command(web_system: WebSystem, **keys: object) -> str:
    """Deploy a relay of commands, and the memory behind it."""
    relay = make_relay("write", r"^/write\s+(.*)", senders="nobody") | {"agent_alias": "inbox"}
    return web_system.deploy(relay | keys, make_memory("write"))


def post(web_system: WebSystem, uid: str, body: bytes, headers: Json) -> Answer:
    return web_system.webhook(uid, "inbox", body, **headers)


def read_contents(web_system: WebSystem, uid: str) -> list[str]:
    web_system.system.client.await_quiet(uid)
    return web_system.system.contents(uid)


def sign_for_github(body: bytes) -> Json:
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return {"X_Hub_Signature_256": f"sha256={signature}", "X_GitHub_Delivery": "72d3162e-cc78"}


def sign_for_slack(body: bytes) -> Json:
    now = str(int(time.time()))
    made = SignatureVerifier(SECRET).generate_signature(timestamp=now, body=body)
    return {"X_Slack_Signature": str(made), "X_Slack_Request_Timestamp": now}


def test_the_signer_agrees_with_the_example_of_github() -> None:
    assert sign_for_github(b"Hello, World!")["X_Hub_Signature_256"] == (
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    )


def test_an_issue_of_github_is_one_record_that_search_finds(web_system: WebSystem) -> None:
    uid = deploy_inbox(web_system, "github")
    issue = sign_for_github(GITHUB_FORM) | {"X_GitHub_Event": "issues", "Content_Type": FORM_TYPE}
    ping_headers = sign_for_github(GITHUB_PING) | {"X_GitHub_Event": "ping"}

    for _ in range(2):
        assert post(web_system, uid, GITHUB_FORM, issue).status == 202
    ping = post(web_system, uid, GITHUB_PING, ping_headers)

    assert (ping.status, ping.json) == (200, {"ignored": "ping"})
    (content,) = read_contents(web_system, uid)
    assert "Müller is not found" in content


def test_an_event_of_stripe_is_one_record(web_system: WebSystem) -> None:
    uid, now = deploy_inbox(web_system, "stripe"), int(time.time())
    header = stripe.WebhookSignature.generate_signature_header(STRIPE.decode(), SECRET, now)

    answers = [post(web_system, uid, STRIPE, {"Stripe_Signature": header}) for _ in range(2)]

    assert [(answer.status, answer.json) for answer in answers] == [
        (202, {"message_id": "evt_1Abc"})
    ] * 2
    assert read_contents(web_system, uid) == [STRIPE.decode()]


def test_an_event_of_slack_runs_as_a_command_once(web_system: WebSystem) -> None:
    keys = {"wf_webhook_sender": "slack", "wf_webhook_secret": "env:SECRET"}
    uid = deploy_command(web_system, **keys)
    challenge = post(web_system, uid, SLACK_CHALLENGE, sign_for_slack(SLACK_CHALLENGE))
    first = post(web_system, uid, SLACK_EVENT, sign_for_slack(SLACK_EVENT))
    retry = sign_for_slack(SLACK_EVENT) | {"X_Slack_Retry_Num": "1"}

    assert (challenge.status, challenge.body) == (200, b"3eZbrw1aBm2r")
    assert [first.status, post(web_system, uid, SLACK_EVENT, retry).status] == [200, 200]
    assert read_contents(web_system, uid) == ["door code is 4711"]


def test_a_message_of_telegram_runs_as_a_command_once(web_system: WebSystem) -> None:
    keys = {"wf_webhook_sender": "telegram", "wf_webhook_secret": "env:SECRET"}
    uid = deploy_command(web_system, **keys)

    for token, status in ((SECRET, 202), (SECRET, 202), ("wrong", 401)):
        headers = {"X_Telegram_Bot_Api_Secret_Token": token}
        assert post(web_system, uid, TELEGRAM, headers).status == status
    assert read_contents(web_system, uid) == ["Zählerstand 1234"]


def test_a_memory_keeps_the_whole_message_of_telegram(web_system: WebSystem) -> None:
    uid = deploy_inbox(web_system, "telegram")

    post(web_system, uid, TELEGRAM, {"X_Telegram_Bot_Api_Secret_Token": SECRET})

    assert read_contents(web_system, uid) == [TELEGRAM.decode()]


def test_json_map_takes_the_text_of_a_message_of_telegram(web_system: WebSystem) -> None:
    pick = make_agent("pick", "json_map", {"expression": "message.text"}, senders="nobody")
    keys = {"agent_alias": "inbox", "wf_webhook_sender": "telegram"}
    secret = {"wf_webhook_secret": "env:SECRET"}
    uid = web_system.deploy(pick | keys | secret, make_memory("write", senders="pick"))

    post(web_system, uid, TELEGRAM, {"X_Telegram_Bot_Api_Secret_Token": SECRET})

    assert read_contents(web_system, uid) == ["/write Zählerstand 1234"]


def test_a_hook_of_mattermost_has_the_command_in_its_text(web_system: WebSystem) -> None:
    chat = make_agent("chat", "regex_filter", {"pattern": ""}, on="")
    keys = {"agent_class": "chat_agent", "agent_alias": "inbox", "wf_webhook_token": "env:TOKEN"}
    dropped = {"wf_diagram_webhook", "wf_webhook_args", "wf_publish_results"}
    chat = {name: value for name, value in chat.items() if name not in dropped}
    relay = make_relay("write", r"^/write\s+(.*)", senders="chat")
    uid = web_system.deploy(chat | keys | {"wf_agent_name": "chat"}, relay, make_memory("write"))

    answer = post(web_system, uid, MATTERMOST, {"Authorization": "Bearer tea"})

    assert answer.status == 202
    assert read_contents(web_system, uid) == ["the key"]
