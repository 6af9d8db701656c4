"""Amazon SNS: the signature of its messages, and the confirmation of subscriptions.

A valid signature proves only that some topic of some account sent a message, so an agent lists the
topics that it accepts. The certificate and the confirmation are fetched with checked addresses.
"""

import asyncio
import base64
import re
import time
from collections import deque
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from memrelay.guarded_http.client import (
    AnswerTooLong,
    OutgoingRefused,
    Request,
    RequestFailed,
    send_blocking,
)
from memrelay.guarded_http.rules import OutgoingRules
from memrelay.logs import get_logger
from memrelay.web.server.errors import Unavailable
from memrelay.web.webhooks.request import HookRequest
from memrelay.web.webhooks.signatures import BadSignature, load_public_keys

log = get_logger(__name__)

HOST = re.compile(r"sns\.[a-z0-9-]{3,63}\.amazonaws\.com(\.cn)?")
MESSAGE_FIELDS = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
SUBSCRIPTION_FIELDS = (
    *("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
)
SUBSCRIPTIONS = ("SubscriptionConfirmation", "UnsubscribeConfirmation")
HASHES = {"1": "sha1", "2": "sha256"}
CERTIFICATE_S = 3600.0
# How long a certificate that could not be fetched is not asked for again.
FAILED_S = 30.0
# Certificates that are fetched in a minute, and those that are kept.
MAX_FETCHES, MAX_KEPT = 10, 100
FETCH_TIMEOUT_S = 10.0
MAX_BYTES = 65_536
Fetch = Callable[[str], bytes]


class FetchFailed(Exception):
    """A URL of SNS cannot be read. The text tells why."""


def fetch(url: str) -> bytes:
    """Return what a public https URL answers. Blocks. Raises FetchFailed."""
    host = urlsplit(url).hostname
    request = Request("GET", url, timeout_s=FETCH_TIMEOUT_S, most_bytes=MAX_BYTES)
    try:
        answer = send_blocking(OutgoingRules(), "sns", request)
    except (OutgoingRefused, RequestFailed, AnswerTooLong) as error:
        raise FetchFailed(f"{host} does not answer: {type(error).__name__}") from error
    if answer.status != 200:
        raise FetchFailed(f"{host} answered {answer.status}")
    return answer.body


def is_sns_url(url: str) -> bool:
    """Return whether a URL leads to SNS: https, its host, and no user, port or fragment."""
    try:
        parts = urlsplit(url)
        is_plain = parts.port is None and parts.username is None and not parts.fragment
    except ValueError:
        return False
    is_https = url.startswith("https://") and parts.netloc == parts.hostname
    return is_https and is_plain and HOST.fullmatch(parts.hostname or "") is not None


class SnsClient:
    """Verifies messages and confirms subscriptions. `fetch` reads a URL, and `clock` seconds."""

    def __init__(self, fetch: Fetch = fetch, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch, self._clock = fetch, clock
        # By URL: (when it ends, the certificate or b"").
        self._certificates: dict[str, tuple[float, bytes]] = {}
        self._fetched_at: deque[float] = deque(maxlen=MAX_FETCHES)
        self._fetching = asyncio.Lock()
        self._confirming: set[asyncio.Task[None]] = set()

    async def verify(self, hook: HookRequest) -> None:
        """Check that one of the sender's topics has signed a message.

        Raises BadSignature, and Unavailable if the certificate cannot be fetched now.
        """
        fields = hook.body.value if isinstance(hook.body.value, dict) else {}
        if "Signature" not in fields:
            raise BadSignature(
                "the message has no signature; switch raw message delivery of this subscription "
                "off, because a raw delivery is not signed"
            )
        topic, algorithm = fields.get("TopicArn"), HASHES.get(str(fields.get("SignatureVersion")))
        if not isinstance(topic, str) or topic not in hook.sender.topics:
            raise BadSignature("the TopicArn is none of the `topics` of wf_webhook_sender")
        if algorithm is None:
            raise BadSignature("the SignatureVersion is neither 1 nor 2")
        url = str(fields.get("SigningCertURL", ""))
        parts = urlsplit(url) if is_sns_url(url) else None
        if parts is None or parts.query or not parts.path.endswith(".pem"):
            raise BadSignature("the SigningCertURL is not one of SNS")
        public_keys = load_public_keys()
        certificate = await self._get_certificate(url)
        signature, signed = _decode(fields["Signature"]), make_signed_text(fields)
        if not public_keys.verify_rsa(certificate, signature, signed, algorithm):
            raise BadSignature("the Signature does not match; the message was changed")

    async def _get_certificate(self, url: str) -> bytes:
        certificate = self._find_certificate(url)
        if certificate is None:
            async with self._fetching:
                certificate = self._find_certificate(url)
                if certificate is None:
                    certificate = await self._fetch_certificate(url, self._clock())
        if not certificate:
            raise Unavailable("the certificate of SNS cannot be fetched now")
        return certificate

    def _find_certificate(self, url: str) -> bytes | None:
        """Return the kept certificate, b"" if it could not be fetched, or None."""
        ends, certificate = self._certificates.get(url, (0.0, b""))
        return certificate if ends > self._clock() else None

    async def _fetch_certificate(self, url: str, now: float) -> bytes:
        """Return the certificate, or b"" if it cannot be fetched, and keep either."""
        if len(self._fetched_at) == MAX_FETCHES and now - self._fetched_at[0] < 60:
            return b""
        self._fetched_at.append(now)
        try:
            certificate = await asyncio.to_thread(self._fetch, url)
        except FetchFailed as error:
            log.warning("sns_certificate_not_fetched", reason=str(error))
            certificate = b""
        self._certificates.pop(url, None)
        self._certificates[url] = (now + (CERTIFICATE_S if certificate else FAILED_S), certificate)
        for oldest in list(self._certificates)[:-MAX_KEPT]:
            del self._certificates[oldest]
        return certificate

    def confirm(self, hook: HookRequest) -> None:
        """Confirm a verified subscription in the background, if the sender's description says so.

        Raises BadSignature if its URL is not one of SNS.
        """
        url = hook.read_text("SubscribeURL")
        if not hook.sender.confirm:
            log.info("sns_subscription_not_confirmed", remedy="set confirm in wf_webhook_sender")
            return
        if not is_sns_url(url):
            raise BadSignature("the SubscribeURL is not one of SNS")
        task = asyncio.create_task(self._confirm(url))
        self._confirming.add(task)
        task.add_done_callback(self._confirming.discard)

    async def _confirm(self, url: str) -> None:
        try:
            await asyncio.to_thread(self._fetch, url)
        except FetchFailed as error:
            log.warning("sns_subscription_not_confirmed", reason=str(error))
        else:
            log.info("sns_subscription_confirmed")


def make_signed_text(fields: dict[str, Any]) -> bytes:
    """Return what SNS signs of a message: names and values of its fields, one a line."""
    is_subscription = fields.get("Type") in SUBSCRIPTIONS
    names = SUBSCRIPTION_FIELDS if is_subscription else MESSAGE_FIELDS
    texts = [f"{name}\n{fields[name]}\n" for name in names if fields.get(name) is not None]
    return "".join(texts).encode(errors="surrogateescape")


def _decode(signature: object) -> bytes:
    try:
        return base64.b64decode(str(signature).encode(errors="replace"), validate=True)
    except ValueError:
        return b""
