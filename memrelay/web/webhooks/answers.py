"""Answers to deliveries in the form that each sender expects."""

import re
from typing import Any
from xml.sax.saxutils import escape

import orjson
from aiohttp import web

from memrelay.pipelines.webhook_senders import Sender
from memrelay.web.webhooks.request import HookRequest

JSON = "application/json"
# Characters of a message of Discord.
MAX_DISCORD = 2000
# Characters that XML 1.0 cannot contain.
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def acknowledge(hook: HookRequest, message_id: str) -> web.Response:
    """Return the answer to a delivery that is stored."""
    ack = hook.sender.ack
    if hook.sender.name == "discord" and hook.read_value("event") is not None:
        return web.Response(status=204)
    if not ack.type:
        return _json({"message_id": message_id}, ack.status)
    return web.Response(status=ack.status, body=ack.body.encode(), content_type=ack.type)


def ignore(hook: HookRequest) -> web.Response:
    """Return the answer to an event that is not stored."""
    ack = hook.sender.ack
    if ack.type:
        return web.Response(status=ack.status, body=ack.body.encode(), content_type=ack.type)
    return _json({"ignored": hook.event}, 200)


def format_result(sender: Sender, text: str) -> web.Response | None:
    """Return a result in the form in which a sender shows it, or None if it has no form."""
    match sender.answer:
        case "slack":
            plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            return _json({"response_type": "ephemeral", "text": plain})
        case "discord":
            data = {"content": text[:MAX_DISCORD], "allowed_mentions": {"parse": []}}
            return _json({"type": 4, "data": data})
        case "teams":
            return _json({"type": "message", "text": text})
        case "twilio":
            message = escape(NOT_XML.sub("", text))
            body = f"<Response><Message>{message}</Message></Response>"
            return web.Response(text=body, content_type="text/xml")
    return None


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(value), content_type=JSON)
