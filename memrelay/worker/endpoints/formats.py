"""The bodies of deliveries: Standard Webhooks, CloudEvents, and messages of chat products."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from memrelay.worker.endpoints.cloudevents import JSON, CloudEvent, Mode, to_cloudevent

# Characters of a message. Slack cuts at 4,000, Discord refuses more than 2,000.
MOST_CHARACTERS = {"slack": 3900, "discord": 1900}
SLACK_ESCAPES = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"))
CLOUDEVENTS: dict[str, Mode] = {"cloudevents": "structured", "cloudevents-binary": "binary"}


class Body(NamedTuple):
    """The body of a request, with the headers that describe it."""

    headers: dict[str, str]
    content: bytes


def make_body(format_: str, id_: str, event: Mapping[str, Any]) -> Body:
    """Return the body of an event {"type", "timestamp", "data"} in a format of endpoints."""
    if (mode := CLOUDEVENTS.get(format_)) is not None:
        return Body(*to_cloudevent(_to_cloudevent(id_, event), mode))
    made: Mapping[str, Any] = event
    if format_ == "slack":
        text = _summarize(event, MOST_CHARACTERS["slack"])
        for character, escaped in SLACK_ESCAPES:
            text = text.replace(character, escaped)
        made = {"text": text}
    elif format_ == "discord":
        text = _summarize(event, MOST_CHARACTERS["discord"])
        made = {"content": text, "allowed_mentions": {"parse": []}}
    return Body({"content-type": JSON}, orjson.dumps(made))


def _to_cloudevent(id_: str, event: Mapping[str, Any]) -> CloudEvent:
    data = event["data"]
    return CloudEvent(
        id_,
        source=f"/{data.get('store', 'memrelay')}",
        type=f"memrelay.{event['type']}",
        data=data,
        subject=str(data.get("guid") or data.get("id") or ""),
        time=event["timestamp"],
    )


def _summarize(event: Mapping[str, Any], most: int) -> str:
    """Return the text of a record, or what happened with which id."""
    data = event["data"]
    text = data.get("content") or data.get("message")
    if not isinstance(text, str):
        text = f"{event['type']} {data.get('guid') or data.get('id') or ''}".strip()
    return text if len(text) <= most else text[: most - 1] + "…"
