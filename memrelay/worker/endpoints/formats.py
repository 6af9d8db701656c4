"""The bodies of deliveries: Standard Webhooks, CloudEvents, and messages of chat products."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

# Characters of a message. Slack cuts at 4,000, Discord refuses more than 2,000.
MOST_CHARACTERS = {"slack": 3900, "discord": 1900}
SLACK_ESCAPES = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"))


class Body(NamedTuple):
    """The body of a request, with its content type."""

    content: bytes
    content_type: str


def make_body(format_: str, id_: str, event: Mapping[str, Any]) -> Body:
    """Return the body of an event {"type", "timestamp", "data"} in a format of endpoints."""
    match format_:
        case "cloudevents":
            return Body(orjson.dumps(_to_cloudevent(id_, event)), "application/cloudevents+json")
        case "slack":
            text = _summarize(event, MOST_CHARACTERS["slack"])
            for character, escaped in SLACK_ESCAPES:
                text = text.replace(character, escaped)
            return Body(orjson.dumps({"text": text}), "application/json")
        case "discord":
            text = _summarize(event, MOST_CHARACTERS["discord"])
            body = {"content": text, "allowed_mentions": {"parse": []}}
            return Body(orjson.dumps(body), "application/json")
    return Body(orjson.dumps(event), "application/json")


def _to_cloudevent(id_: str, event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event of CloudEvents 1.0 in the structured mode."""
    data = event["data"]
    subject = data.get("guid") or data.get("id")
    return {
        "specversion": "1.0",
        "id": id_,
        "source": f"/{data.get('store', 'memrelay')}",
        "type": f"memrelay.{event['type']}",
        "time": event["timestamp"],
        "datacontenttype": "application/json",
        "data": data,
        **({"subject": subject} if subject else {}),
    }


def _summarize(event: Mapping[str, Any], most: int) -> str:
    """Return the text of a record, or what happened with which id."""
    data = event["data"]
    text = data.get("content") or data.get("message")
    if not isinstance(text, str):
        text = f"{event['type']} {data.get('guid') or data.get('id') or ''}".strip()
    return text if len(text) <= most else text[: most - 1] + "…"
