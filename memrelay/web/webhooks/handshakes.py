"""Handshakes: requests with which a sender checks a URL before it sends events.

A handshake that the sender signs is verified like an event. None is stored or logged.
"""

import hmac
import re
from collections.abc import Mapping

import orjson
from aiohttp import hdrs, web

from memrelay.web.server.errors import BadRequest
from memrelay.web.webhooks.request import HookRequest

# What may be repeated to a caller: printable ASCII without white space, and no HTML.
CHALLENGE = re.compile(r"[\x21-\x3b\x3d-\x7e]{1,1024}")
# Zoom signs its own requests with the same key, so no text like one of them is signed for it.
ZOOM_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,100}")
# A host name, as Azure Event Grid sends it.
ORIGIN = re.compile(r"[A-Za-z0-9.-]{1,253}")
ZOOM_EVENT = "endpoint.url_validation"
INVALID = "the challenge is empty, too long, or has characters that are not repeated"


def answer_unsigned(sender: str, request: web.Request, verify_token: str) -> web.Response | None:
    """Return the answer to a handshake that nobody signs, or None if the request is none.

    `sender` is the name in `Sender.handshake`. `verify_token` is Meta's, "" for none.
    """
    query, method = request.query, request.method
    match sender, method:
        case "meta", hdrs.METH_GET:
            given = query.get("hub.verify_token", "").encode(errors="surrogateescape")
            is_valid = hmac.compare_digest(given, verify_token.encode()) and bool(verify_token)
            if is_valid and query.get("hub.mode") == "subscribe":
                return repeat_challenge(query.get("hub.challenge", ""))
        case "dropbox", hdrs.METH_GET if "challenge" in query:
            return repeat_challenge(query["challenge"])
        case "microsoft-graph", hdrs.METH_POST if "validationToken" in query:
            return repeat_challenge(query["validationToken"])
        case "trello", hdrs.METH_HEAD:
            return web.Response(content_type="text/plain")
        case "cloudevents", hdrs.METH_OPTIONS:
            return _allow_origin(request.headers)
    return None


def answer_signed(hook: HookRequest, key: bytes) -> web.Response | None:
    """Return the answer to a handshake among verified requests, or None for an event.

    `key` is the secret that signed the request.
    """
    match hook.sender.handshake:
        case "slack" if hook.read_value("type") == "url_verification":
            return repeat_challenge(hook.read_text("challenge"))
        case "discord":
            return _answer_discord(hook)
        case "zoom" if hook.event == ZOOM_EVENT:
            return _answer_zoom(hook.read_text("payload.plainToken"), key)
    return None


def repeat_challenge(challenge: str) -> web.Response:
    """Return a challenge as plain text that no browser shows as a page. Raises BadRequest."""
    if not CHALLENGE.fullmatch(challenge):
        raise BadRequest(INVALID)
    return web.Response(text=challenge, headers={"Content-Security-Policy": "sandbox"})


def _allow_origin(headers: Mapping[str, str]) -> web.Response | None:
    origin = headers.get("WebHook-Request-Origin", "")
    if not ORIGIN.fullmatch(origin):
        return None
    allowed = {"WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": "*", "Allow": "POST"}
    return web.Response(headers=allowed, content_type="text/plain")


def _answer_discord(hook: HookRequest) -> web.Response | None:
    """Answer the PING of an interaction (type 1), and that of webhook events (type 0)."""
    kind, is_event = hook.read_value("type"), hook.read_value("event") is not None
    if kind == 1 and not is_event and not isinstance(kind, bool):
        return web.Response(body=b'{"type":1}', content_type="application/json")
    return web.Response(status=204) if kind == 0 and not is_event else None


def _answer_zoom(token: str, key: bytes) -> web.Response:
    if not ZOOM_TOKEN.fullmatch(token):
        raise BadRequest(INVALID)
    encrypted = hmac.digest(key, token.encode(), "sha256").hex()
    body = orjson.dumps({"plainToken": token, "encryptedToken": encrypted})
    return web.Response(body=body, content_type="application/json")
