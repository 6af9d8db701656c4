"""Sends deliveries: one request for each try, over the guarded client."""

import asyncio
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime

import aiohttp

from memrelay.memory.models.endpoints.outbox import Request
from memrelay.memory.models.endpoints.schedule import MAX_RETRY_AFTER_S, Answer
from memrelay.memory.models.endpoints.table import Secret
from memrelay.outgoing.client import AnswerTooLong, GuardedClient, PrivateAddress
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.worker.endpoints.formats import make_body
from memrelay.worker.endpoints.signatures import sign

TIMEOUT_S = 15.0
# Characters of an answer that are kept.
KEPT_CHARACTERS = 1024
USER_AGENT = "Memrelay-Webhooks"


class Sender:
    """Makes the requests of one worker. `client` is open."""

    def __init__(self, client: GuardedClient, secrets: SecretResolver) -> None:
        self._client, self._secrets = client, secrets

    async def send(self, request: Request) -> Answer:
        """Make one try, and return its answer. Raises nothing: a failure is an answer without a
        status.
        """
        began_s = time.monotonic()
        try:
            url, headers, body = await self._prepare(request)
            async with asyncio.timeout(TIMEOUT_S):
                answer = await self._client.post(url, body, headers)
        except TimeoutError:
            return Answer(0, f"no answer within {TIMEOUT_S:g} s", _since_ms(began_s))
        except (LookupError, ValueError, PrivateAddress, AnswerTooLong) as error:
            return Answer(0, self._redact(str(error)), _since_ms(began_s))
        except (aiohttp.ClientError, OSError) as error:
            reason = f"no connection: {type(error).__name__}: {error}"
            return Answer(0, self._redact(reason), _since_ms(began_s))
        text = self._redact(answer.body.decode(errors="replace"))
        return Answer(
            answer.status, text, _since_ms(began_s), parse_retry_after(answer.retry_after)
        )

    async def _prepare(self, request: Request) -> tuple[str, dict[str, str], bytes]:
        """Return the URL, headers and body. Raises LookupError and ValueError for a secret that
        cannot be used.
        """
        delivery, spec = request.delivery, request.endpoint.spec
        now_ms = time.time_ns() // 1_000_000
        secrets = await self._read_secrets(request.endpoint.secrets, now_ms)
        body = make_body(spec.format, delivery.id, request.event)
        signed = sign(secrets, delivery.id, now_ms // 1000, body.content)
        headers = {"Content-Type": body.content_type, "User-Agent": USER_AGENT}
        return await self._read(spec.url), headers | dict(spec.headers) | signed, body.content

    async def _read_secrets(self, secrets: Sequence[Secret], now_ms: int) -> list[str]:
        return [
            await self._read(one.value)
            for one in secrets
            if one.until is None or one.until > now_ms
        ]

    async def _read(self, value: str) -> str:
        """Return a value, or what its reference names."""
        if value.startswith(("env:", "file:")):
            return (await asyncio.to_thread(self._secrets.read_for_block, value)).strip()
        return value

    def _redact(self, text: str) -> str:
        printable = "".join(
            one if one.isprintable() or one == "\n" else " " for one in text[:KEPT_CHARACTERS]
        )
        return self._secrets.redact(printable)


def parse_retry_after(value: str) -> float:
    """Return the seconds that a Retry-After header asks for, 0 if it is absent or malformed."""
    if value.isascii() and value.isdecimal():
        return min(float(value[:9]), MAX_RETRY_AFTER_S)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time()) if value else 0.0
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _since_ms(began_s: float) -> int:
    return round((time.monotonic() - began_s) * 1000)
