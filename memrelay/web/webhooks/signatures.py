"""Verification of the signatures that a sender's description tells, over the raw body.

Signatures of Standard Webhooks are in `web.auth.webhook_auth`.
"""

import base64
import binascii
import hashlib
import hmac
import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from secrets import token_bytes
from typing import Any
from urllib.parse import parse_qs, urlsplit

from memrelay.bus.message import SECONDS_BELOW
from memrelay.installation import install_extra
from memrelay.pipelines.webhook_fields import Place, parse_field
from memrelay.pipelines.webhook_senders import SENDERS, Sender, SignatureSpec
from memrelay.web.webhooks.request import HookRequest, as_text, find_header

# A sender with several secrets sends one signature for each.
MAX_SIGNATURES = 20
TWILIO_SIGNATURE = "X-Twilio-Signature"
TWILIO_SETTINGS = "X-Twilio-Webhooks-Signature-Settings"
SNS_TYPE = "x-amz-sns-message-type"
SPECIAL_HEADERS = {"twilio": TWILIO_SIGNATURE, "sns": SNS_TYPE}
# Stands in for a missing secret, so that all agents take the same time.
UNKNOWN_KEY = token_bytes(32)


class BadSignature(ValueError):
    """A signature is missing or invalid. The text names the violated rule."""


def get_signature_header(sender: Sender) -> str:
    """Return the header that shows that a sender signed a request, or "" if there is none."""
    if sender.signature is None:
        return SPECIAL_HEADERS.get(sender.special, "")
    return "" if sender.signature.is_in_body else sender.signature.header


def has_signature(sender: Sender, headers: Mapping[str, str]) -> bool:
    """Return whether a request has the signature header of a sender."""
    name = get_signature_header(sender)
    prefix = sender.signature.prefix if sender.signature is not None else ""
    value = find_header(headers, name) if name else ""
    # Authorization belongs to others too, so its prefix counts.
    return value.startswith(prefix) if name == "Authorization" and value else bool(value)


def find_signers(headers: Mapping[str, str]) -> list[Sender]:
    """Return the known senders whose signature header a request has."""
    return [sender for sender in SENDERS.values() if has_signature(sender, headers)]


def describe_mismatch(sender: Sender) -> str:
    """Return why a signature does not match, in the same words whether or not the agent exists."""
    name = get_signature_header(sender) or "signature in the body"
    return (
        f"no {name} matches: the secret of the webhook differs or is not set, or the request was "
        'changed after signing. The list "Last requests" of the pipeline\'s webhooks has the '
        "details, for callers with a key"
    )


def describe_sender(sender: Sender, accepted: Sender) -> str:
    """Return why a signature of a sender does not match, for operators of the agent.

    `accepted` is the sender whose signatures the agent accepts.
    """
    name = get_signature_header(sender) or "signature in the body"
    if sender.name == accepted.name:
        return (
            f"no {name} matches: the secret differs from that of the sender, or the request was "
            "changed after signing"
        )
    alike = [one.name for one in SENDERS.values() if get_signature_header(one) == name]
    names = " or ".join(f'"{one}"' for one in alike or [sender.name])
    return (
        f"the request has a {name}, and the agent accepts signatures of {accepted.name}; set "
        f'"wf_webhook_sender": {names} and the secret of this sender'
    )


def check_head(sender: Sender, headers: Mapping[str, str]) -> None:
    """Check the rules that need no body: that there is a signature, and its time.

    Raises BadSignature.
    """
    spec = sender.signature
    if spec is None or spec.is_in_body:
        return
    if not find_header(headers, spec.header):
        raise BadSignature(f"the header {spec.header} is missing; it has the signature")
    if spec.timestamp.startswith(("header:", "signature:")):
        _check_time(spec, _read_timestamp(spec, headers))


def verify(hook: HookRequest, keys: Sequence[bytes]) -> bytes:
    """Return the key that has signed a request. Raises BadSignature.

    All keys are tried, so that the time does not tell which one matches.
    """
    spec = hook.sender.signature
    if hook.sender.needs_url and not hook.urls:
        raise BadSignature("the signature covers the URL; set web.public_url where the server runs")
    if hook.sender.special == "twilio":
        algorithm = "sha256" if "HMAC_SHA256" in hook.headers.get(TWILIO_SETTINGS, "") else "sha1"
        # The secret of a webhook rule stands after that of the account.
        keys = keys[1:] if algorithm == "sha256" else keys
        matches = _match_twilio(hook, algorithm)
    elif spec is None:
        raise BadSignature(describe_mismatch(hook.sender))
    elif spec.algorithm == "token":
        given = _read_signatures(spec, hook)
        matches = partial(_are_all_equal, given)
    else:
        matches = _match_signed(spec, hook)
    found = [key for key in keys or (UNKNOWN_KEY,) if matches(key)]
    if not found:
        raise BadSignature(describe_mismatch(hook.sender))
    return found[0]


def _are_all_equal(given: Sequence[bytes], key: bytes) -> bool:
    return bool(given) and all(hmac.compare_digest(one, key) for one in given)


def _match_signed(spec: SignatureSpec, hook: HookRequest) -> Callable[[bytes], bool]:
    """Return whether a key has made one of the signatures of a request, as a function.

    Raises BadSignature for a wrong timestamp.
    """
    timestamp = _read_timestamp(spec, hook.headers, hook)
    if spec.timestamp:
        _check_time(spec, timestamp)
    decode = _decode_hex if spec.encoding == "hex" else _decode_base64
    given = [one for one in map(decode, _read_signatures(spec, hook)) if one]
    texts = [_make_signed_text(spec, hook, timestamp, url) for url in hook.urls or ("",)]
    signed = [text for text in dict.fromkeys(texts) if text is not None]
    if spec.algorithm == "ed25519":
        verify_ed25519 = load_public_keys().verify_ed25519
        return lambda key: any(verify_ed25519(key, one, text) for one in given for text in signed)
    return lambda key: any(
        hmac.compare_digest(one, hmac.digest(key, text, spec.algorithm))
        for one in given
        for text in signed
    )


def load_public_keys() -> Any:
    """Return the module with the signatures of public keys. Raises BadSignature without it."""
    try:
        return importlib.import_module("memrelay.web.webhooks.public_keys")
    except ModuleNotFoundError as error:
        if error.name != "cryptography":
            raise
        raise BadSignature(f"this signature needs cryptography: {install_extra('webhooks')}") from (
            error
        )


def _read_signatures(spec: SignatureSpec, hook: HookRequest) -> list[bytes]:
    """Return the signatures of a request without their prefix, still encoded.

    A value of the body may be a list; each of its elements counts.
    """
    if spec.is_in_body:
        value = hook.read_value(spec.header.removeprefix("body:"))
        texts = [as_text(one) for one in value] if isinstance(value, list) else [as_text(value)]
    else:
        text = find_header(hook.headers, spec.header)
        texts = text.split(spec.separator)[:MAX_SIGNATURES] if spec.separator else [text]
    if spec.algorithm == "token":
        # An element without the prefix must not be left out: each one has to match.
        return [one.removeprefix(spec.prefix).encode(errors="surrogateescape") for one in texts]
    stripped = [one.strip() for one in texts]
    return [
        one.removeprefix(spec.prefix).encode(errors="surrogateescape")
        for one in stripped
        if one.startswith(spec.prefix)
    ]


def _decode_hex(text: bytes) -> bytes:
    try:
        return binascii.unhexlify(text)
    except ValueError:
        return b""


def _decode_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _read_timestamp(
    spec: SignatureSpec, headers: Mapping[str, str], hook: HookRequest | None = None
) -> str:
    kind, _, name = spec.timestamp.partition(":")
    if kind == "header":
        return find_header(headers, name)
    if kind == "signature":
        elements = find_header(headers, spec.header).split(spec.separator or ",")
        start = f"{name}="
        found = (one.strip() for one in elements[:MAX_SIGNATURES])
        return next((one.removeprefix(start) for one in found if one.startswith(start)), "")
    return hook.read_field(spec.timestamp) if spec.timestamp and hook is not None else ""


def _check_time(spec: SignatureSpec, timestamp: str) -> None:
    """Raise BadSignature if a timestamp is too far from this server's clock."""
    where = spec.timestamp
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) < 16):
        raise BadSignature(f"the timestamp of the signature ({where}) is not a Unix time")
    sent_at = int(timestamp)
    sent_at_s = sent_at if sent_at < SECONDS_BELOW else sent_at / 1000
    if abs(time.time() - sent_at_s) > spec.tolerance_s:
        raise BadSignature(
            f"the timestamp of the signature ({where}) differs from this server's clock by more "
            f"than {spec.tolerance_s} s; send the webhook again with a new signature"
        )


def _make_signed_text(
    spec: SignatureSpec, hook: HookRequest, timestamp: str, url: str
) -> bytes | None:
    """Return what the sender has signed, or None if the request lacks a part of it."""
    parts = []
    for part in parse_field(spec.signed):
        if part == Place("body"):
            parts.append(hook.raw)
            continue
        if isinstance(part, str):
            text = part
        elif part.kind == "timestamp":
            text = timestamp
        elif part.kind == "url":
            text = url
        elif part.kind == "id":
            text = hook.delivery_id
        else:
            text = hook.read_place(part)
        if not text:
            return None
        parts.append(text.encode(errors="surrogateescape"))
    return b"".join(parts)


def _match_twilio(hook: HookRequest, algorithm: str) -> Callable[[bytes], bool]:
    """Return whether a key has signed the URL and the sorted parameters of a form, as a function.

    A body that is no form is signed by its SHA-256 in the query. Raises BadSignature without it.
    """
    form = hook.body.form
    if not form and hook.raw:
        given = parse_qs(urlsplit(hook.urls[0]).query).get("bodySHA256", []) if hook.urls else []
        digest = hashlib.sha256(hook.raw).hexdigest()
        if not any(hmac.compare_digest(one.lower().encode(), digest.encode()) for one in given):
            raise BadSignature(
                "bodySHA256 in the query is missing, or is not the SHA-256 of the body; Twilio "
                "signs a body other than a form with it"
            )
    parameters = "".join(name + value for name, value in sorted(set(form)))
    signature = _decode_base64(hook.headers.get(TWILIO_SIGNATURE, "").encode(errors="replace"))
    return lambda key: any(
        hmac.compare_digest(
            signature,
            hmac.digest(key, (url + parameters).encode(errors="surrogateescape"), algorithm),
        )
        for url in hook.urls
    )
