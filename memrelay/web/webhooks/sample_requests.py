"""Sample requests of the known senders, signed as they sign them: `memrelay webhooks send`.

samples.json has the body, or the form, and the headers of one event of each sender. `@id` in it is
a new id, `@time` the time as text, and `@now_s` and `@now_ms` are Unix times. `@signature` is the
place of a signature in the body.
"""

import base64
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import orjson
from standardwebhooks import Webhook

from memrelay.memory.engine.timestamps import format_time
from memrelay.pipelines.webhook_fields import Place, parse_field
from memrelay.pipelines.webhook_secrets import parse_key, split_secrets
from memrelay.pipelines.webhook_senders import Sender, SignatureSpec
from memrelay.web.webhooks.request import MAX_VALUE_BYTES, as_text, compile_cached

SAMPLES = Path(__file__).with_name("samples.json")
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
SIGNATURE = "@signature"
METHOD = "POST"


class CannotSign(ValueError):
    """A request that only its sender can sign. The text has the reason."""


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """The headers and the body of a request."""

    headers: dict[str, str]
    body: bytes


def make_sample_request(sender: Sender, secret: str | None, url: str, now_ms: int) -> SampleRequest:
    """Return the request of one event of a sender, signed with the first secret of `secret`.

    `url` is the one that the sender knows. With None in place of a secret, the request is not
    signed. Raises CannotSign, and ValueError for a malformed secret.
    """
    _check_can_sign(sender)
    ident = uuid4().hex
    text = SAMPLES.read_bytes()
    for name, value in (
        (b'"@now_s_text"', b'"%d"' % (now_ms // 1000)),
        (b'"@now_s"', b"%d" % (now_ms // 1000)),
        (b'"@now_ms"', b"%d" % now_ms),
        (b"@time", format_time(now_ms).encode()),
        (b"@id", ident.encode()),
    ):
        text = text.replace(name, value)
    sample = orjson.loads(text)[sender.name]
    form = sample.get("form")
    body = urlencode(form).encode() if form else orjson.dumps(sample["body"])
    headers = {"Content-Type": FORM if form else JSON}
    headers |= {name: str(value) for name, value in sample.get("headers", {}).items()}
    if secret is None:
        return SampleRequest(headers, body)
    secrets = split_secrets(secret, sender.key_form)
    if not secrets:
        raise ValueError("it is empty")
    key = parse_key(secrets[0], sender.key_form)
    return _sign(sender, key, SampleRequest(headers, body), (url, now_ms, ident, form))


def _check_can_sign(sender: Sender) -> None:
    spec = sender.signature
    if sender.special == "sns" or (spec is not None and spec.algorithm == "ed25519"):
        raise CannotSign(
            f"only {sender.name} can sign its requests, with a private key that nobody else has; "
            "use the test of its own settings page"
        )


def _sign(
    sender: Sender, key: bytes, request: SampleRequest, context: tuple[str, int, str, Any]
) -> SampleRequest:
    url, now_ms, ident, form = context
    if sender.special == "twilio":
        text = url + "".join(name + value for name, value in sorted(form.items()))
        signature = base64.b64encode(hmac.digest(key, text.encode(), "sha1")).decode()
        return SampleRequest(request.headers | {"X-Twilio-Signature": signature}, request.body)
    if sender.signature is not None:
        return _sign_by_spec(sender.signature, key, request, url, now_ms)
    if not sender.standard:
        return request
    at = datetime.fromtimestamp(now_ms // 1000, UTC)
    headers = {
        "webhook-id": f"msg_{ident}",
        "webhook-timestamp": str(now_ms // 1000),
        "webhook-signature": Webhook(key).sign(f"msg_{ident}", at, request.body.decode()),
    }
    return SampleRequest(request.headers | headers, request.body)


def _sign_by_spec(
    spec: SignatureSpec, key: bytes, request: SampleRequest, url: str, now_ms: int
) -> SampleRequest:
    """Return the request with a signature of this description. Raises CannotSign."""
    headers, kind, place = dict(request.headers), *spec.timestamp.partition(":")[::2]
    timestamp = str(now_ms // 1000)
    if kind == "header":
        # HubSpot's has milliseconds.
        timestamp = headers.setdefault(place, timestamp)
    elif kind == "body":
        timestamp = _read_body(request, place)
    if spec.algorithm == "token":
        signature = key.decode(errors="surrogateescape")
    else:
        parts = [
            _read_part(part, request, headers, url, timestamp) for part in parse_field(spec.signed)
        ]
        digest = hmac.digest(key, b"".join(parts), spec.algorithm)
        signature = digest.hex() if spec.encoding == "hex" else base64.b64encode(digest).decode()
    signature = spec.prefix + signature
    if spec.is_in_body:
        if SIGNATURE.encode() not in request.body:
            raise CannotSign(
                f"its signature is in the body ({spec.header}), and the sample has no place for it"
            )
        quoted = orjson.dumps(signature)[1:-1]
        return SampleRequest(headers, request.body.replace(SIGNATURE.encode(), quoted))
    if kind == "signature":
        signature = f"{place}={timestamp}{spec.separator or ','}{signature}"
    return SampleRequest(headers | {spec.header: signature}, request.body)


def _read_part(
    part: str | Place, request: SampleRequest, headers: dict[str, str], url: str, timestamp: str
) -> bytes:
    """Return one part of what is signed. Raises CannotSign if the sample lacks it."""
    if isinstance(part, str):
        return part.encode()
    if part == Place("body"):
        return request.body
    if part.kind == "body":
        text = _read_body(request, part.name)
    else:
        values = {"timestamp": timestamp, "url": url, "method": METHOD}
        text = values.get(part.kind, headers.get(part.name, ""))
    if not text:
        raise CannotSign(f"its signature covers {':'.join(part)}, which the sample does not have")
    return text.encode()


def _read_body(request: SampleRequest, expression: str) -> str:
    value = compile_cached(expression).evaluate(orjson.loads(request.body), MAX_VALUE_BYTES)
    if not (text := as_text(value)):
        raise CannotSign(f"its signature covers body:{expression}, which the sample does not have")
    return text
