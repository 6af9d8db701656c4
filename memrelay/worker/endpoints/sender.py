"""Sends deliveries: one request for each try, over the guarded client."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from urllib.parse import urlsplit

from memrelay.guarded_http.client import (
    GuardedClient,
    OutgoingRefused,
    RequestFailed,
)
from memrelay.guarded_http.client import Request as HttpRequest
from memrelay.memory.models.endpoints.events import DEAD_LETTER_ADDED
from memrelay.memory.models.endpoints.outbox import Request
from memrelay.memory.models.endpoints.schedule import Answer
from memrelay.memory.models.endpoints.table import Secret
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.worker.endpoints.cloudevents import JSON
from memrelay.worker.endpoints.formats import Body, make_body
from memrelay.worker.endpoints.signatures import sign
from memrelay.worker.endpoints.templates import render

TIMEOUT_S = 15.0
# Bytes of an answer that are kept.
KEPT_BYTES = 1024
USER_AGENT = "Memrelay-Webhooks"
TOO_MANY_HOPS = (
    "not sent: it is message {} in a chain, and worker.max_hops is {}; do webhooks and endpoints "
    "form a loop?"
)


class Sender:
    """Makes the requests of one pipeline. `client` is open.

    A request after more than `most_hops` messages is not made: it belongs to a loop.
    """

    def __init__(
        self, client: GuardedClient, secrets: SecretResolver, uid: str, most_hops: int
    ) -> None:
        self._client, self._secrets, self._uid = client, secrets, uid
        self._most_hops = most_hops

    async def send(self, request: Request) -> Answer:
        """Make one try, and return its answer. Raises nothing: a failure is an answer without a
        status.
        """
        began_s = time.monotonic()
        if (hop := request.cause.hop + 1) > self._most_hops:
            return Answer(0, TOO_MANY_HOPS.format(hop, self._most_hops), is_final=True)
        try:
            answer = await self._client.send(await self._prepare(request))
        except (LookupError, ValueError, OutgoingRefused, RequestFailed) as error:
            return Answer(0, self._redact(str(error)), _since_ms(began_s))
        text = self._redact(answer.body.decode(errors="replace"))
        return Answer(answer.status, text, _since_ms(began_s), answer.retry_after_s or 0.0)

    async def _prepare(self, request: Request) -> HttpRequest:
        """Return the request.

        Raises LookupError and ValueError for a secret or a template that cannot be used.
        """
        delivery, spec = request.delivery, request.endpoint.spec
        now_ms = time.time_ns() // 1_000_000
        url = await self._read(spec.url, "")
        host = urlsplit(url).hostname or ""
        secrets = [
            await self._read(one.value, host) for one in _in_force(request.endpoint.secrets, now_ms)
        ]
        if spec.template is None:
            body = make_body(spec.format, delivery.id, request.event)
        else:
            content = await asyncio.to_thread(render, spec.template, request.event)
            body = Body({"content-type": JSON}, content)
        signed = sign(secrets, delivery.id, now_ms // 1000, body.content)
        headers = body.headers | {"User-Agent": USER_AGENT}
        return HttpRequest(
            "POST",
            url,
            headers | dict(spec.headers) | signed,
            body.content,
            timeout_s=TIMEOUT_S,
            most_bytes=KEPT_BYTES,
            cuts_off=True,
            # Dead letters count no hops. Without a count, none goes to our own webhooks.
            hop=None if delivery.type == DEAD_LETTER_ADDED else request.cause.hop + 1,
        )

    async def _read(self, value: str, host: str) -> str:
        """Return a value, or what its reference names. "" stands for any host.

        Raises LookupError.
        """
        if value.startswith(("env:", "file:")):
            read = partial(self._secrets.read_to_send, value, host, self._uid)
            value = (await asyncio.to_thread(read)).strip()
        return value

    def _redact(self, text: str) -> str:
        """Return a text without secrets and control characters."""
        text = self._secrets.redact(text)
        return "".join(one if one.isprintable() or one == "\n" else " " for one in text)


def _in_force(secrets: Sequence[Secret], now_ms: int) -> list[Secret]:
    return [one for one in secrets if one.until is None or one.until > now_ms]


def _since_ms(began_s: float) -> int:
    return round((time.monotonic() - began_s) * 1000)
