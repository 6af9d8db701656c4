"""The senders of webhooks: how each one signs, and where a request has its id and its event.

SENDERS is the table of known senders. A bundle names one in `wf_webhook_sender`, or describes
another one with the keys of SenderSpec.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from memrelay.memory.field_descriptions import DescribedModel
from memrelay.pipelines.webhook_fields import HEADER_NAME, Place, parse_field
from memrelay.pipelines.webhook_secrets import KeyForm

MAX_TOLERANCE_S = 86_400
MAX_ITEMS = 100
# Headers with credentials, which no message may contain.
SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "x-gitlab-token"}
    | {"x-telegram-bot-api-secret-token"}
)


def _check_field(text: str) -> str:
    parse_field(text)
    return text


def _check_header(text: str) -> str:
    if not text.startswith("body:") and not HEADER_NAME.fullmatch(text):
        raise ValueError("must be the name of a header, or body: and a JMESPath expression")
    if text.startswith("body:"):
        parse_field(text)
    return text


def _check_kept(name: str) -> str:
    if not HEADER_NAME.fullmatch(name):
        raise ValueError("must be the name of a header")
    if name.lower() in SECRET_HEADERS:
        raise ValueError(f"must not be {name}, which contains a credential")
    return name


RequestField = Annotated[str, AfterValidator(_check_field)]
RequestFields = RequestField | Annotated[tuple[RequestField, ...], Field(max_length=MAX_ITEMS)]
Names = Annotated[tuple[str, ...], Field(max_length=MAX_ITEMS)]


class _Spec(DescribedModel):
    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=1000)


class SignatureSpec(_Spec):
    """How a sender proves that a request is its own."""

    header: Annotated[str, AfterValidator(_check_header)]
    """Header with the signature, or `body:` and a JMESPath expression."""
    algorithm: Literal["sha1", "sha256", "sha512", "ed25519", "token"] = "sha256"
    """HMAC with this hash, Ed25519, or `token`: the value is the secret itself."""
    encoding: Literal["hex", "base64"] = "hex"
    """Encoding of the signature."""
    prefix: str = ""
    """Text in front of the signature, like `sha256=`."""
    separator: str = ""
    """Text between several signatures in the header."""
    signed: RequestField = "{body}"
    """What is signed, with {body}, {timestamp}, {url}, {method}, {id}, {header:NAME} and
    {body:EXPRESSION}."""
    timestamp: Annotated[str, AfterValidator(lambda text: text and _check_field(text))] = ""
    """Place of the time of the signature: Unix seconds or milliseconds."""
    tolerance_s: Annotated[int, Field(ge=1, le=MAX_TOLERANCE_S)] = 300
    """The largest difference between the timestamp and the server's clock."""
    key: KeyForm = "text"
    """How a secret is written: as it is, one a line; in base64 or hex; or `whsec_<base64>`."""

    @property
    def is_in_body(self) -> bool:
        """Return whether the signature is in the body and not in a header."""
        return self.header.startswith("body:")

    @model_validator(mode="after")
    def _signs_its_timestamp(self) -> "SignatureSpec":
        is_in_body = self.timestamp.startswith("body:") and Place("body") in parse_field(
            self.signed
        )
        if self.timestamp and not is_in_body and "{timestamp}" not in self.signed:
            raise ValueError("`signed` must contain {timestamp}, or anybody could change the time")
        return self


class SenderSpec(_Spec):
    """A sender that the table of senders does not have, or a changed one."""

    profile: str = ""
    """Known sender whose description the other keys change."""
    signature: SignatureSpec | None = None
    id: RequestFields = ()
    """Place of the delivery id, or a list: the first that a request has. `digest` is a digest of
    event and body. An id that two different events may share loses one of them."""
    event: RequestFields = ()
    """Place of the event's name, or a list: the first that a request has."""
    ignore: Names = ()
    """Events that are answered and not stored."""
    headers: Annotated[
        tuple[Annotated[str, AfterValidator(_check_kept)], ...], Field(max_length=MAX_ITEMS)
    ] = ()
    """Headers that the message keeps in `webhook.headers`."""
    form_field: str = ""
    """Field of a form that contains the JSON of the event."""
    topics: Names = ()
    """Topics that are accepted, as ARN: for `sns` alone."""
    confirm: bool = False
    """Confirm subscriptions to these topics: for `sns` alone."""


@dataclass(frozen=True, slots=True)
class Ack:
    """The answer to a delivery that is stored. An empty type stands for `{"message_id"}`."""

    status: int = 202
    type: str = ""
    body: str = ""


@dataclass(frozen=True, slots=True)
class Sender:
    """A sender of webhooks.

    `standard` is whether it may sign as in Standard Webhooks, and `special` names a signature that
    no SignatureSpec describes. `id` and `event` are references (`webhook_fields`), the first that a
    request has counts. `ignore` are events that are not stored, `headers` those that a message
    keeps, and `form_field` is the field of a form that has the JSON. `text` is the JMESPath
    expression of the text for chats and relays. `handshake` and `answer` name functions of
    `web.webhooks`. `longest_wait_s` is how long the sender waits for an answer, 0 for any time.
    """

    name: str
    signature: SignatureSpec | None = None
    standard: bool = False
    special: Literal["", "twilio", "sns"] = ""
    id: tuple[str, ...] = ()
    event: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    form_field: str = ""
    text: str = ""
    ack: Ack = Ack()
    handshake: str = ""
    answer: str = ""
    longest_wait_s: float = 0.0
    topics: tuple[str, ...] = ()
    confirm: bool = False

    @property
    def signs(self) -> bool:
        """Return whether its requests are signed with a secret of the agent."""
        return self.signature is not None or self.standard or self.special == "twilio"

    @property
    def needs_url(self) -> bool:
        """Return whether its signature covers the URL, which `web.public_url` tells."""
        return self.special == "twilio" or (
            self.signature is not None and "{url}" in self.signature.signed
        )

    @property
    def needs_cryptography(self) -> bool:
        """Return whether its signature needs the optional package cryptography."""
        is_ed25519 = self.signature is not None and self.signature.algorithm == "ed25519"
        return is_ed25519 or self.special == "sns"

    @property
    def key_form(self) -> KeyForm:
        """Return how its secrets are written."""
        if self.signature is not None:
            return self.signature.key
        return "text" if self.special == "twilio" else "standard"


EMPTY_200 = Ack(200, "text/plain")
GITHUB_SIGNATURE = SignatureSpec(header="X-Hub-Signature-256", prefix="sha256=")
HUB_SIGNATURE = SignatureSpec(header="X-Hub-Signature", prefix="sha256=")

_TABLE = (
    Sender("standard", standard=True, id=("header:webhook-id", "header:svix-id")),
    Sender(
        "github",
        GITHUB_SIGNATURE,
        id=("header:X-GitHub-Delivery",),
        event=("header:X-GitHub-Event",),
        ignore=("ping",),
        headers=("X-GitHub-Event", "X-GitHub-Delivery", "X-GitHub-Hook-ID"),
        form_field="payload",
    ),
    Sender(
        "gitlab",
        SignatureSpec(header="X-Gitlab-Token", algorithm="token"),
        standard=True,
        id=("header:webhook-id", "header:Idempotency-Key", "digest"),
        event=("header:X-Gitlab-Event", "body:object_kind"),
        headers=("X-Gitlab-Event", "X-Gitlab-Instance", "X-Gitlab-Event-UUID"),
    ),
    Sender(
        "stripe",
        SignatureSpec(
            header="Stripe-Signature",
            prefix="v1=",
            separator=",",
            timestamp="signature:t",
            signed="{timestamp}.{body}",
        ),
        id=("body:id",),
        event=("body:type",),
    ),
    Sender(
        "slack",
        SignatureSpec(
            header="X-Slack-Signature",
            prefix="v0=",
            timestamp="header:X-Slack-Request-Timestamp",
            signed="v0:{timestamp}:{body}",
        ),
        id=("body:event_id", "body:trigger_id"),
        event=("body:event.type || command || type",),
        headers=("X-Slack-Retry-Num", "X-Slack-Retry-Reason"),
        form_field="payload",
        text="command && join(' ', [command, text || '']) || event.text",
        ack=EMPTY_200,
        handshake="slack",
        answer="slack",
        longest_wait_s=2.5,
    ),
    Sender(
        "shopify",
        SignatureSpec(header="X-Shopify-Hmac-Sha256", encoding="base64"),
        id=("header:X-Shopify-Webhook-Id", "{header:X-Shopify-Event-Id} {header:X-Shopify-Topic}"),
        event=("header:X-Shopify-Topic",),
        headers=("X-Shopify-Topic", "X-Shopify-Shop-Domain", "X-Shopify-Triggered-At"),
    ),
    Sender(
        "telegram",
        SignatureSpec(header="X-Telegram-Bot-Api-Secret-Token", algorithm="token"),
        id=("body:update_id",),
        event=("body:keys(@)[?@ != 'update_id'] | [0]",),
        text="message.text || edited_message.text || channel_post.text || message.caption",
    ),
    Sender(
        "twilio",
        special="twilio",
        id=("header:I-Twilio-Idempotency-Token", "form"),
        event=("body:EventType || MessageStatus || CallStatus || SmsStatus",),
        ack=Ack(200, "text/xml", "<Response/>"),
        answer="twilio",
        longest_wait_s=14.0,
    ),
    Sender(
        "discord",
        SignatureSpec(
            header="X-Signature-Ed25519",
            algorithm="ed25519",
            key="hex",
            timestamp="header:X-Signature-Timestamp",
            signed="{timestamp}{body}",
        ),
        id=("body:id", "{header:X-Signature-Timestamp} {digest}"),
        event=("body:event.type || data.name || to_string(type)",),
        ack=Ack(200, "application/json", '{"type":5}'),
        handshake="discord",
        answer="discord",
        longest_wait_s=2.5,
    ),
    Sender(
        "meta",
        GITHUB_SIGNATURE,
        id=("digest",),
        event=("body:entry[0].changes[0].field || object",),
        ack=EMPTY_200,
        handshake="meta",
    ),
    Sender(
        "trello",
        SignatureSpec(
            header="X-Trello-Webhook", algorithm="sha1", encoding="base64", signed="{body}{url}"
        ),
        id=("body:action.id",),
        event=("body:action.type",),
        ack=EMPTY_200,
        handshake="trello",
    ),
    Sender(
        "dropbox",
        SignatureSpec(header="X-Dropbox-Signature"),
        ack=EMPTY_200,
        handshake="dropbox",
    ),
    Sender(
        "zoom",
        SignatureSpec(
            header="x-zm-signature",
            prefix="v0=",
            timestamp="header:x-zm-request-timestamp",
            signed="v0:{timestamp}:{body}",
        ),
        id=("digest",),
        event=("body:event",),
        ack=EMPTY_200,
        handshake="zoom",
    ),
    Sender(
        "microsoft-graph",
        # Each element must have the secret; a missing one becomes the text "null".
        SignatureSpec(header="body:value[].to_string(clientState)", algorithm="token"),
        event=("body:value[0].changeType || value[0].lifecycleEvent",),
        handshake="microsoft-graph",
    ),
    Sender(
        "cloudevents",
        standard=True,
        id=(
            "{header:ce-source} {header:ce-id}",
            "{body:specversion && source} {body:specversion && id}",
        ),
        event=("header:ce-type", "body:specversion && type"),
        headers=("ce-id", "ce-source", "ce-type", "ce-specversion", "ce-subject", "ce-time"),
        handshake="cloudevents",
    ),
    Sender("token"),
    Sender(
        "linear",
        SignatureSpec(header="Linear-Signature", timestamp="body:webhookTimestamp"),
        id=("header:Linear-Delivery",),
        event=("header:Linear-Event", "body:type"),
        headers=("Linear-Event", "Linear-Delivery"),
    ),
    Sender(
        "bitbucket",
        HUB_SIGNATURE,
        id=("header:X-Request-UUID",),
        event=("header:X-Event-Key",),
        headers=("X-Event-Key", "X-Hook-UUID", "X-Attempt-Number"),
    ),
    Sender(
        "jira",
        HUB_SIGNATURE,
        id=("header:X-Atlassian-Webhook-Identifier",),
        event=("body:webhookEvent",),
        headers=("X-Atlassian-Webhook-Identifier", "X-Atlassian-Webhook-Retry"),
    ),
    Sender(
        "notion",
        SignatureSpec(header="X-Notion-Signature", prefix="sha256="),
        id=("body:id",),
        event=("body:type",),
    ),
    Sender(
        "sentry",
        SignatureSpec(header="Sentry-Hook-Signature"),
        id=("header:Request-ID",),
        event=("header:Sentry-Hook-Resource",),
        headers=("Sentry-Hook-Resource", "Sentry-Hook-Timestamp"),
    ),
    Sender(
        "grafana",
        SignatureSpec(header="X-Grafana-Alerting-Signature"),
        event=("body:status",),
    ),
    Sender(
        "pagerduty",
        SignatureSpec(header="X-PagerDuty-Signature", prefix="v1=", separator=","),
        id=("body:event.id",),
        event=("body:event.event_type",),
        headers=("X-Webhook-Id",),
    ),
    Sender(
        "hubspot",
        SignatureSpec(
            header="X-HubSpot-Signature-v3",
            encoding="base64",
            timestamp="header:X-HubSpot-Request-Timestamp",
            signed="{method}{url}{body}{timestamp}",
        ),
        event=("body:[0].subscriptionType",),
    ),
    Sender(
        "square",
        SignatureSpec(
            header="X-Square-HmacSha256-Signature", encoding="base64", signed="{url}{body}"
        ),
        id=("body:event_id",),
        event=("body:type",),
    ),
    Sender(
        "mailgun",
        SignatureSpec(
            header="body:signature.signature || signature",
            timestamp="body:signature.timestamp || timestamp",
            signed="{timestamp}{body:signature.token || token}",
        ),
        id=('{body:"event-data".id} {body:"event-data".timestamp}', "body:token"),
        event=('body:"event-data".event',),
        ack=EMPTY_200,
    ),
    Sender(
        "teams",
        SignatureSpec(header="Authorization", prefix="HMAC ", encoding="base64", key="base64"),
        event=("body:type",),
        ack=Ack(200, "application/json", '{"type":"message","text":"Received."}'),
        answer="teams",
        longest_wait_s=4.0,
    ),
    Sender(
        "sns",
        special="sns",
        id=("body:MessageId",),
        event=("body:Type",),
        headers=("x-amz-sns-message-type", "x-amz-sns-topic-arn"),
        handshake="sns",
    ),
)
SENDERS = {sender.name: sender for sender in _TABLE}
# The name of a sender that a bundle describes itself.
CUSTOM = "custom"


def make_sender(given: str | SenderSpec) -> Sender:
    """Return the sender that a bundle names or describes. Raises LookupError: unknown profile."""
    if isinstance(given, str):
        return SENDERS[given]
    base = SENDERS[given.profile] if given.profile else Sender(CUSTOM, standard=True)
    changes = {name: getattr(given, name) for name in given.model_fields_set - {"profile"}}
    for name in ("id", "event"):
        if isinstance(changes.get(name), str):
            changes[name] = (changes[name],)
    if given.signature is not None:
        changes |= {"standard": False, "special": ""}
    return replace(base, **changes)
