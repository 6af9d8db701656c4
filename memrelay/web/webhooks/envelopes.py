"""Turns the body of a webhook into the messages for its agent (docs/http.md, Webhooks)."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

import msgspec
import orjson

from memrelay.bus.message import JSON, PLAIN, Timestamp, envelope_limit
from memrelay.pipelines.check import CheckedAgent
from memrelay.pipelines.expressions import Expression, ExpressionFault, to_text
from memrelay.web.server.errors import TooLarge, Unprocessable
from memrelay.web.server.options import WebOptions
from memrelay.web.server.request_body import check_names, complete_envelope, is_part
from memrelay.web.webhooks.body import WebhookBody

DEFAULT_SENDER = "webhook"
MAX_EVENTS = 1_000


class _Named(msgspec.Struct, rename={"sender": "from"}, forbid_unknown_fields=True, kw_only=True):
    sender: str | None = None
    id: str | None = None


class _EnvelopePart(msgspec.Struct):
    text: str
    username: str | None = None
    timestamp: Timestamp = None
    type: str | None = None


class _WholeEnvelope(_Named, forbid_unknown_fields=True, kw_only=True):
    args: tuple[_EnvelopePart, ...]
    mid: Any = None
    hop: Any = None
    trace: Any = None


class _WholeMessage(_Named, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    text: str
    username: str | msgspec.UnsetType | None = msgspec.UNSET
    type: str | msgspec.UnsetType | None = msgspec.UNSET
    timestamp: Timestamp | msgspec.UnsetType = msgspec.UNSET


class _WholeEmpty(_Named, forbid_unknown_fields=True, kw_only=True):
    args: None = None
    text: Literal["", None] = None


_read_empty = msgspec.json.Decoder(_WholeEmpty).decode
_read_envelope = msgspec.json.Decoder(_WholeEnvelope).decode
_read_message = msgspec.json.Decoder(_WholeMessage).decode


class Webhook(msgspec.Struct, frozen=True):
    """One request of a sender. A struct for speed.

    `metadata` becomes the field `webhook` of the message part: event, sender, delivery_id, headers,
    verified; {} for an agent without a sender. `text` is the sender's expression of the text, for
    an agent without `wf_webhook_text`. `is_kilroy` applies the rules of Kilroy's path.
    """

    body: WebhookBody
    now_ms: int
    metadata: dict[str, Any] = {}
    text: Expression | None = None
    is_kilroy: bool = False


def make_envelopes(agent: CheckedAgent, webhook: Webhook, options: WebOptions) -> list[bytes]:
    """Return the envelopes of the messages for the agent: one, or one for each event of the body.

    Several have the ids `ID#1`, `ID#2` and so on, and are appended together. Raises Unprocessable
    and TooLarge.
    """
    max_bytes = find_body_limit(agent, options)
    if len(webhook.body.raw) > max_bytes:
        raise TooLarge(describe_long_body(len(webhook.body.raw), max_bytes))
    envelopes = _make_envelopes(agent, webhook, max_bytes)
    most = envelope_limit(max(max_bytes, options.message_bytes))
    if (longest := max(map(len, envelopes))) > most:
        raise TooLarge(
            f"the body becomes a message of {longest} bytes, since quotes and control characters "
            f"are escaped; at most {most} are possible; raise web.webhook_bytes"
        )
    return envelopes


def find_body_limit(agent: CheckedAgent, options: WebOptions) -> int:
    """Return how many bytes the body of a webhook to this agent may have."""
    return agent.webhook_bytes or options.webhook_bytes or options.message_bytes


def describe_long_body(size: int, max_bytes: int) -> str:
    return (
        f"the body has {size} bytes; this webhook allows {max_bytes} "
        "(wf_webhook_bytes of the agent, else web.webhook_bytes)"
    )


def _make_envelopes(agent: CheckedAgent, webhook: Webhook, max_bytes: int) -> list[bytes]:
    given = _read_given(webhook)
    if given is not None:
        return [given]
    if agent.each is not None and webhook.body.type == JSON:
        events = _list_events(agent.each, webhook.body.value, max_bytes)
        if events:
            return [
                _make_envelope(agent, webhook, (to_text(one), _find_type(one)), one)
                for one in events
            ]
    body = webhook.body
    return [_make_envelope(agent, webhook, (body.text, body.type), None)]


def _list_events(each: Expression, value: Any, max_bytes: int) -> list[Any]:
    """Return the events in a body, [] if it has no list of them. Raises Unprocessable."""
    try:
        events = each.evaluate(value, max_bytes)
    except ExpressionFault as fault:
        raise Unprocessable(f"wf_webhook_each: {fault}") from fault
    if not isinstance(events, list):
        return []
    if len(events) > MAX_EVENTS:
        raise Unprocessable(
            f"the body has {len(events)} events by wf_webhook_each; at most {MAX_EVENTS}"
        )
    return events


def _read_given(webhook: Webhook) -> bytes | None:
    """Return the envelope of a body that is an envelope, a message or empty, else None."""
    body = webhook.body
    if body.type != JSON:
        return None
    if body.text == "null":
        return _wrap(webhook, {"text": ""})
    if not body.text.startswith("{"):
        return None
    if webhook.is_kilroy:
        return _read_as_kilroy(webhook)
    message = _has_shape(_read_message, body.text)
    if message is not None:
        return _wrap(webhook, msgspec.to_builtins(message))
    envelope = _has_shape(_read_envelope, body.text)
    return _use_envelope(webhook) if envelope and envelope.args else _use_empty(webhook)


def _has_shape(read: Callable[[str], Any], text: str) -> Any:
    """Return the text as the struct that `read` decodes, None if it has another shape."""
    try:
        return read(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _use_envelope(webhook: Webhook) -> bytes | None:
    """Return the envelope as it was sent, None if it is not valid as a whole."""
    try:
        return orjson.dumps(complete_envelope(webhook.body.value, DEFAULT_SENDER))
    except (Unprocessable, orjson.JSONEncodeError):
        return None


def _use_empty(webhook: Webhook) -> bytes | None:
    """Return the envelope of an empty message, None if the body is not empty."""
    empty = _has_shape(_read_empty, webhook.body.text)
    # An id alone is the content of an event.
    if empty is None or (empty.id and not empty.sender):
        return None
    return _wrap(webhook, {"text": "", "from": empty.sender, "id": empty.id})


def _read_as_kilroy(webhook: Webhook) -> bytes | None:
    """Return the envelope of Kilroy's callers, who add other fields, else None."""
    value = webhook.body.value
    if not isinstance(value, dict) or (value.keys() == {"text"} and not value["text"]):
        return _use_empty(webhook)
    if isinstance(value.get("args"), list):
        return _use_envelope(webhook)
    if isinstance(value.get("text"), str) and "args" not in value and is_part(value):
        check_names(value)
        return _wrap(webhook, dict(value))
    return _use_empty(webhook)


def _wrap(webhook: Webhook, fields: dict[str, Any]) -> bytes | None:
    """Return the envelope of a message, None if a number in it is too large."""
    author, message_id = fields.pop("from", None) or DEFAULT_SENDER, fields.pop("id", None) or ""
    part = {"username": author, "timestamp": webhook.now_ms, "type": PLAIN} | fields
    if webhook.metadata:
        part["webhook"] = webhook.metadata
    return _dump({"from": author, "id": message_id, "args": [part]})


def _make_envelope(
    agent: CheckedAgent, webhook: Webhook, text: tuple[str, str], event: Any
) -> bytes:
    """Return the envelope of a body, or of one `event` in it, with (text, type)."""
    kept, kind = text
    metadata = dict(webhook.metadata)
    if webhook.body.encoding:
        metadata["encoding"] = webhook.body.encoding
    if kind == JSON and (selected := _select_text(agent, webhook, event)):
        if not agent.is_publisher:
            metadata["body"] = kept
        kept, kind = selected
    part = {"text": kept, "type": kind, "username": DEFAULT_SENDER, "timestamp": webhook.now_ms}
    if metadata:
        part["webhook"] = metadata
    envelope = _dump({"from": DEFAULT_SENDER, "id": "", "args": [part]})
    assert envelope is not None  # the metadata is text
    return envelope


def _select_text(agent: CheckedAgent, webhook: Webhook, event: Any) -> tuple[str, str] | None:
    """Return (text, type) of the text that the agent wants from the body, None for all of it."""
    expression = agent.text or webhook.text
    if expression is None and not agent.is_publisher:
        return None
    value, selected = webhook.body.value if event is None else event, None
    if expression is not None:
        with suppress(ExpressionFault):
            selected = expression.evaluate(value, len(webhook.body.text.encode()))
    else:
        selected = value.get("text") if isinstance(value, dict) else None
        selected = selected if isinstance(selected, str) else None
    if selected is None or selected == "":
        return None
    return to_text(selected), _find_type(selected)


def _find_type(value: Any) -> str:
    return PLAIN if isinstance(value, str) else JSON


def _dump(value: Any) -> bytes | None:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return None
