"""Signs webhook requests as their senders do: by the sender's library where one can sign,
otherwise by a few lines that were written from the sender's page. Imports nothing of Memrelay.
"""

import hashlib
import hmac
import json
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlencode

import stripe
import svix.webhooks
from cloudevents.conversion import to_binary, to_structured
from cloudevents.http import CloudEvent
from nacl.signing import SigningKey
from slack_sdk.signature import SignatureVerifier
from twilio.request_validator import RequestValidator

from tests.support.signing import make_secret, signed

JSON_TYPE, FORM_TYPE = "application/json", "application/x-www-form-urlencoded"
Headers = dict[str, str]
# The headers of a request: sign(secret, body, sent_at_s, url).
Sign = Callable[[str, bytes, int, str], Headers]
DISCORD_KEYS = {seed: SigningKey(hashlib.sha256(seed.encode()).digest()) for seed in ("1", "2")}


def mac(secret: str | bytes, text: bytes, algorithm: str = "sha256") -> bytes:
    key = secret.encode() if isinstance(secret, str) else secret
    return hmac.new(key, text, algorithm).digest()


def base64_mac(secret: str | bytes, text: bytes, algorithm: str = "sha256") -> str:
    return b64encode(mac(secret, text, algorithm)).decode()


@dataclass(frozen=True)
class SenderCase:
    """One sender: how it signs `body`, and what a receiver has to know.

    `content` is the body, or a function that makes one with the time of now.

    `signature` names the header without which a request is refused. `same_id` is whether a second
    delivery is recognized. `event` is the name of the event.
    """

    name: str
    sign: Sign
    content: bytes | Callable[[], bytes]
    event: str = ""
    signature: str = ""
    content_type: str = JSON_TYPE
    headers: Headers = field(default_factory=dict)
    has_timestamp: bool = False
    same_id: bool = True
    secret: str = "first secret of a sender, with spaces #1"
    other_secret: str = "another secret"
    changed: tuple[bytes, bytes] = (b"tea", b"Tea")

    @property
    def body(self) -> bytes:
        return self.content() if callable(self.content) else self.content


def make_json(**fields: object) -> bytes:
    return json.dumps(fields | {"note": "tea"}).encode()


def sign_stripe(secret: str, body: bytes, sent_at: int, url: str) -> Headers:
    signature = stripe.WebhookSignature._compute_signature(f"{sent_at}.{body.decode()}", secret)
    return {"Stripe-Signature": f"t={sent_at},v1={'0' * 64},v1={signature},v0=6ffbb59b2300aae6"}


def sign_slack(secret: str, body: bytes, sent_at: int, url: str) -> Headers:
    made = SignatureVerifier(secret).generate_signature(timestamp=str(sent_at), body=body)
    return {"X-Slack-Signature": str(made), "X-Slack-Request-Timestamp": str(sent_at)}


def sign_twilio(secret: str, body: bytes, sent_at: int, url: str) -> Headers:
    form = dict(pair.split("=") for pair in body.decode().split("&"))
    return {"X-Twilio-Signature": RequestValidator(secret).compute_signature(url, form)}


def sign_svix(secret: str, body: bytes, sent_at: int, url: str) -> Headers:
    at = datetime.fromtimestamp(sent_at, UTC)
    signature = svix.webhooks.Webhook(secret).sign("msg_2Lml", at, body.decode())
    return {"svix-id": "msg_2Lml", "svix-timestamp": str(sent_at), "svix-signature": signature}


def sign_standard(secret: str, body: bytes, sent_at: int, url: str) -> Headers:
    return signed(body, secret, age_s=int(time.time()) - sent_at)


def sign_discord(secret: str, body: bytes, sent_at: int, url: str) -> Headers:
    key = next(one for one in DISCORD_KEYS.values() if one.verify_key.encode().hex() == secret)
    signature = key.sign(str(sent_at).encode() + body).signature.hex()
    return {"X-Signature-Ed25519": signature, "X-Signature-Timestamp": str(sent_at)}


def sign_zoom(secret: str, body: bytes, sent_at: int, url: str) -> Headers:
    signature = mac(secret, f"v0:{sent_at}:".encode() + body).hex()
    return {"x-zm-signature": f"v0={signature}", "x-zm-request-timestamp": str(sent_at)}


def sign_hubspot(secret: str, body: bytes, sent_at: int, url: str) -> Headers:
    text = b"POST" + url.encode() + body + f"{sent_at}000".encode()
    signature = base64_mac(secret, text)
    return {
        "X-HubSpot-Signature-v3": signature,
        "X-HubSpot-Request-Timestamp": f"{sent_at}000",
    }


def sign_cloudevents(secret: str, body: bytes, sent_at: int, url: str) -> Headers:
    headers, _ = to_binary(make_cloud_event(json.loads(body)))
    return headers | signed(body, secret, ident="m2", age_s=int(time.time()) - sent_at)


def make_cloud_event(data: object) -> CloudEvent:
    attributes = {"type": "tea.made", "source": "/kettle", "id": "A1"}
    return CloudEvent(attributes | {"time": "2026-01-01T00:00:00Z"}, data)


def make_structured_event(data: object) -> tuple[Headers, bytes]:
    """Return the headers and the body of a structured CloudEvent."""
    return to_structured(make_cloud_event(data))


def hub(name: str, prefix: str = "sha256=") -> Sign:
    """Return a signer of the raw body: hexadecimal HMAC-SHA256 in one header."""
    return lambda secret, body, sent_at, url: {name: prefix + mac(secret, body).hex()}


def in_base64(name: str, form: str = "{body}", prefix: str = "", algorithm: str = "sha256") -> Sign:
    """Return a signer with HMAC in base64 over the body, and the URL where `form` has it."""

    def sign(secret: str, body: bytes, sent_at: int, url: str) -> Headers:
        text = form.encode().replace(b"{url}", url.encode()).replace(b"{body}", body)
        key = b64decode(secret) if prefix else secret
        return {name: prefix + base64_mac(key, text, algorithm)}

    return sign


def constant(name: str) -> Sign:
    return lambda secret, body, sent_at, url: {name: secret}


def unsigned(secret: str, body: bytes, sent_at: int, url: str) -> Headers:
    return {}


def make_mailgun(secret: str, sent_at: int) -> bytes:
    """Return a body of Mailgun, which has its signature in the body."""
    signature = mac(secret, f"{sent_at}t0k3n".encode()).hex()
    return make_json(
        **{
            "signature": {"timestamp": str(sent_at), "token": "t0k3n", "signature": signature},
            "event-data": {"event": "opened", "id": "m1", "timestamp": 1771000000.5},
        }
    )


CASES = [
    SenderCase(
        "standard",
        sign_standard,
        make_json(type="paid"),
        signature="webhook-signature",
        has_timestamp=True,
        secret=make_secret("one"),
        other_secret=make_secret("two"),
    ),
    SenderCase(
        "github",
        hub("X-Hub-Signature-256"),
        make_json(action="opened"),
        "issues",
        "X-Hub-Signature-256",
        headers={"X-GitHub-Event": "issues", "X-GitHub-Delivery": "72d3162e-cc78-11e3"},
    ),
    SenderCase(
        "gitlab",
        constant("X-Gitlab-Token"),
        make_json(object_kind="push"),
        "Push Hook",
        "X-Gitlab-Token",
        headers={"X-Gitlab-Event": "Push Hook", "X-Gitlab-Event-UUID": "shared"},
        changed=(b"", b""),
    ),
    SenderCase(
        "stripe",
        sign_stripe,
        make_json(id="evt_1Abc", type="invoice.paid"),
        "invoice.paid",
        "Stripe-Signature",
        has_timestamp=True,
        secret="whsec_of_stripe",
    ),
    SenderCase(
        "slack",
        sign_slack,
        make_json(type="event_callback", event_id="Ev01", event={"type": "message"}),
        "message",
        "X-Slack-Signature",
        has_timestamp=True,
    ),
    SenderCase(
        "shopify",
        in_base64("X-Shopify-Hmac-Sha256"),
        make_json(id=820982911946154508),
        "orders/create",
        "X-Shopify-Hmac-Sha256",
        headers={"X-Shopify-Topic": "orders/create", "X-Shopify-Webhook-Id": "b54557e4"},
    ),
    SenderCase(
        "telegram",
        constant("X-Telegram-Bot-Api-Secret-Token"),
        make_json(update_id=987001, message={"text": "tea"}),
        "message",
        "X-Telegram-Bot-Api-Secret-Token",
        changed=(b"", b""),
    ),
    SenderCase(
        "twilio",
        sign_twilio,
        b"MessageSid=SM1&MessageStatus=sent&Body=tea",
        "sent",
        "X-Twilio-Signature",
        content_type=FORM_TYPE,
        headers={"I-Twilio-Idempotency-Token": "8c2f"},
    ),
    SenderCase(
        "discord",
        sign_discord,
        make_json(type=2, id="1", data={"name": "remember"}),
        "remember",
        "X-Signature-Ed25519",
        has_timestamp=True,
        secret=DISCORD_KEYS["1"].verify_key.encode().hex(),
        other_secret=DISCORD_KEYS["2"].verify_key.encode().hex(),
    ),
    SenderCase(
        "meta",
        hub("X-Hub-Signature-256"),
        make_json(object="page", entry=[{"changes": [{"field": "feed"}]}]),
        "feed",
        "X-Hub-Signature-256",
    ),
    SenderCase(
        "trello",
        in_base64("X-Trello-Webhook", "{body}{url}", algorithm="sha1"),
        make_json(action={"id": "a1", "type": "updateCard"}),
        "updateCard",
        "X-Trello-Webhook",
    ),
    SenderCase(
        "dropbox",
        hub("X-Dropbox-Signature", ""),
        make_json(list_folder={"accounts": ["dbid:1"]}),
        signature="X-Dropbox-Signature",
        same_id=False,
    ),
    SenderCase(
        "zoom",
        sign_zoom,
        make_json(event="meeting.started", event_ts=1771000000123),
        "meeting.started",
        "x-zm-signature",
        has_timestamp=True,
    ),
    SenderCase(
        "microsoft-graph",
        unsigned,
        make_json(
            value=[
                {"clientState": "first secret of a sender, with spaces #1", "changeType": "created"}
            ]
        ),
        "created",
        same_id=False,
        changed=(b"first secret", b"other secret"),
    ),
    SenderCase(
        "cloudevents",
        sign_cloudevents,
        make_json(cups=2),
        "tea.made",
        "webhook-signature",
        has_timestamp=True,
        secret=make_secret("three"),
        other_secret=make_secret("two"),
    ),
    SenderCase(
        "linear",
        hub("Linear-Signature", ""),
        lambda: make_json(webhookTimestamp=int(time.time() * 1000), type="Issue"),
        "Issue",
        "Linear-Signature",
        headers={"Linear-Delivery": "234d1a4e", "Linear-Event": "Issue"},
    ),
    SenderCase(
        "bitbucket",
        hub("X-Hub-Signature"),
        make_json(push={}),
        "repo:push",
        "X-Hub-Signature",
        headers={"X-Event-Key": "repo:push", "X-Request-UUID": "r1"},
    ),
    SenderCase(
        "jira",
        hub("X-Hub-Signature"),
        make_json(webhookEvent="jira:issue_updated"),
        "jira:issue_updated",
        "X-Hub-Signature",
        headers={"X-Atlassian-Webhook-Identifier": "j1"},
    ),
    SenderCase(
        "notion",
        hub("X-Notion-Signature"),
        make_json(id="n1", type="page.created"),
        "page.created",
        "X-Notion-Signature",
    ),
    SenderCase(
        "sentry",
        hub("Sentry-Hook-Signature", ""),
        make_json(action="created"),
        "issue",
        "Sentry-Hook-Signature",
        headers={"Sentry-Hook-Resource": "issue", "Request-ID": "s1"},
    ),
    SenderCase(
        "grafana",
        hub("X-Grafana-Alerting-Signature", ""),
        make_json(status="firing"),
        "firing",
        "X-Grafana-Alerting-Signature",
        same_id=False,
    ),
    SenderCase(
        "pagerduty",
        hub("X-PagerDuty-Signature", f"v1={'0' * 64},v1="),
        make_json(event={"id": "p1", "event_type": "incident.triggered"}),
        "incident.triggered",
        "X-PagerDuty-Signature",
    ),
    SenderCase(
        "hubspot",
        sign_hubspot,
        json.dumps([{"subscriptionType": "contact.creation", "note": "tea"}]).encode(),
        "contact.creation",
        "X-HubSpot-Signature-v3",
        has_timestamp=True,
        same_id=False,
    ),
    SenderCase(
        "square",
        in_base64("X-Square-HmacSha256-Signature", "{url}{body}"),
        make_json(event_id="q1", type="payment.created"),
        "payment.created",
        "X-Square-HmacSha256-Signature",
    ),
    SenderCase(
        "mailgun",
        unsigned,
        lambda: make_mailgun("first secret of a sender, with spaces #1", int(time.time())),
        "opened",
        changed=(b"t0k3n", b"t0k4n"),
    ),
    SenderCase(
        "teams",
        in_base64("Authorization", prefix="HMAC "),
        make_json(type="message", text="tea"),
        "message",
        "Authorization",
        same_id=False,
        secret=b64encode(b"key of teams").decode(),
        other_secret=b64encode(b"another key").decode(),
    ),
]
FORM = urlencode({"payload": json.dumps({"action": "opened"})}).encode()
