"""Sends the requests of the blocks http_request and webhook_send, in a deferred call."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import orjson
from standardwebhooks.webhooks import Webhook

from memrelay.blocks.contract import RunningCall, Transient
from memrelay.guarded_http.client import (
    Answer,
    AnswerTooLong,
    GuardedClient,
    OutgoingRefused,
    Request,
    RequestFailed,
)
from memrelay.pipelines.secret_references import MIN_REDACTED, REDACTED
from memrelay.pipelines.webhook_secrets import parse_key, split_secrets

MAX_ANSWER = 65_536
# Headers of an answer that are published.
ANSWER_HEADERS = (
    *("content-type", "date", "etag", "last-modified", "link", "location", "retry-after"),
    *("x-request-id", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"),
)
TEMPORARY = frozenset({408, 425, 429})
SHOWN_HEADER = 1_000  # characters


class UnusableSecret(Exception):
    """A secret of the request cannot be read or sent. The text names the reference."""


class RequestUnanswered(Transient):
    """The request failed for now. The worker sends it again."""


async def send_request(fields: Mapping[str, Any], deferred_call: RunningCall) -> dict[str, Any]:
    """Return the answer: `status`, `headers`, and `json` or `text`, or `error`, with or without
    them. Raises RequestUnanswered: the request is sent again later.
    """
    sender = _Sender(fields, deferred_call)
    try:
        request = sender.prepare()
        pipeline = deferred_call.pipeline
        open_client = partial(GuardedClient, deferred_call.outgoing, "http", pipeline)
        client = await deferred_call.share(f"http.client/{pipeline}", open_client)
        answer = await client.send(request)
    except (UnusableSecret, OutgoingRefused, AnswerTooLong) as error:
        return {"error": sender.redact(str(error))}
    except RequestFailed as error:
        return sender.fail(sender.redact(str(error)))
    return sender.take(answer)


class _Sender:
    """One attempt of a request. It knows the secrets that the request has."""

    def __init__(self, fields: Mapping[str, Any], deferred_call: RunningCall) -> None:
        self._fields, self._call = fields, deferred_call
        self._secrets: set[str] = set()
        self._host = ""

    def prepare(self) -> Request:
        """Return the request with its secrets. Raises UnusableSecret."""
        fields = self._fields
        url: str = fields["url"]
        if url.startswith(("env:", "file:")):
            url = self._read_url(url)
        self._host = (urlsplit(url).hostname or "").lower()
        content = None if fields["content"] is None else fields["content"].encode()
        headers = {"Idempotency-Key": self._call.id}
        headers |= {"Content-Type": fields["type"]} if content is not None else {}
        given = {name: self._read_header(value) for name, value in fields["headers"].items()}
        if any(name.lower() == "content-type" for name in given):
            headers.pop("Content-Type", None)
        headers |= given
        if reference := fields.get("secret"):
            headers |= self._sign(self._read(reference), content or b"", reference)
        return Request(
            fields["method"],
            url,
            headers,
            content,
            fields["timeout_s"],
            MAX_ANSWER,
            cuts_off=True,
            hop=self._call.hop + 1,
        )

    def _read_url(self, reference: str) -> str:
        """Return a URL that is a secret. Raises UnusableSecret."""
        try:
            url = self._call.secret_for(reference, "")
            parts = urlsplit(url)
            self._host = (parts.hostname or "").lower()
        except LookupError as error:
            raise UnusableSecret(error.args[0]) from error
        except ValueError as error:
            raise UnusableSecret(f"{reference} is no URL") from error
        if not self._host:
            raise UnusableSecret(f"{reference} is no URL")
        self._secrets |= {url, parts.path, f"{parts.path}?{parts.query}", parts.query}
        self._read(reference)
        return url

    def _read(self, reference: str) -> str:
        """Return a secret that may be sent to the host. Raises UnusableSecret."""
        try:
            value = self._call.secret_for(reference, self._host)
        except LookupError as error:
            raise UnusableSecret(error.args[0]) from error
        self._secrets.add(value)
        return value

    def _read_header(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        return f"{value['prefix']}{self._read(value['secret'])}"

    def _sign(self, secret: str, content: bytes, reference: str) -> dict[str, str]:
        """Return the headers of Standard Webhooks. Raises UnusableSecret."""
        ident = f"msg_{sha256(self._call.id.encode()).hexdigest()[:32]}"
        now = datetime.now(UTC)
        try:
            keys = [parse_key(one, "standard") for one in split_secrets(secret, "standard")]
        except ValueError as error:
            raise UnusableSecret(f"{reference} cannot sign: {error}") from error
        if not keys:
            raise UnusableSecret(f"{reference} has no secret")
        return {
            "webhook-id": ident,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": " ".join(
                Webhook(key).sign(ident, now, content.decode()) for key in keys
            ),
        }

    def take(self, answer: Answer) -> dict[str, Any]:
        """Return what is published of an answer. Raises RequestUnanswered."""
        published = self._publish(answer)
        expected = self._fields["expected"] or range(200, 300)
        if answer.status in expected:
            return published
        fault = f"{self._host} answers {answer.status} {self.redact(answer.reason)}".rstrip()
        if answer.status in TEMPORARY or answer.status >= 500:
            return published | self.fail(fault, answer.retry_after_s)
        return published | {"error": fault}

    def fail(self, fault: str, after_s: float | None = None) -> dict[str, str]:
        """Return the error of a request that is not repeated. Raises RequestUnanswered."""
        if self._call.attempts < self._fields["retries"]:
            raise RequestUnanswered(fault, after_s)
        return {"error": f"{fault} (after {self._call.attempts + 1} attempts)"}

    def _publish(self, answer: Answer) -> dict[str, Any]:
        headers = {
            name: self.redact(answer.headers[name][:SHOWN_HEADER])
            for name in ANSWER_HEADERS
            if name in answer.headers
        }
        published: dict[str, Any] = {"status": answer.status, "headers": headers}
        try:
            if not answer.body or answer.is_cut_off:
                raise ValueError("it is no JSON")
            return published | {"json": self._redact_json(orjson.loads(answer.body))}
        except ValueError:
            text = self.redact(answer.body.decode(errors="replace"))
        return published | {"text": text} | ({"is_cut_off": True} if answer.is_cut_off else {})

    def _redact_json(self, value: Any) -> Any:
        """Return a JSON value without secrets in its strings."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, list):
            return [self._redact_json(inner) for inner in value]
        if isinstance(value, dict):
            return {self.redact(key): self._redact_json(inner) for key, inner in value.items()}
        return value

    def redact(self, text: str) -> str:
        """Return a text without the secrets of the request."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            if len(secret) >= MIN_REDACTED:
                text = text.replace(secret, REDACTED)
        return text
