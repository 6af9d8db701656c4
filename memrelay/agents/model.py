"""A chat model behind an OpenAI-compatible API: one POST to `/chat/completions` for each step."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from memrelay.agents.response import parse_response
from memrelay.guarded_http.client import (
    Answer,
    AnswerTooLong,
    GuardedClient,
    OutgoingRefused,
    Request,
    RequestFailed,
    TlsFailed,
)

PATH = "/chat/completions"
# Attempts for one request, and the pauses between them. Retry-After replaces a pause; the request
# fails at once if the service asks for more than MAX_PAUSE_S.
ATTEMPTS, FIRST_PAUSE_S, MAX_PAUSE_S = 3, 1.0, 30.0
TEMPORARY = frozenset({408, 409, 425, 429})
# Statuses that are about the content of a request.
REJECTED = frozenset({400, 413, 422})
MAX_TOKENS = 10**9  # that one answer may report
# Bytes of an answer, and the time for one. A deferred call has a shorter limit.
MAX_ANSWER, ANSWER_S = 8 << 20, 3600.0
EMPTY_TEXT = "text cannot be empty"
MAX_REASON = 300  # characters of a service's reason that are reported
# Models that refuse `max_tokens` and take `max_completion_tokens`.
NEW_LIMIT = re.compile(r"(.*/)?(o[1-9]|gpt-[5-9])")


class ModelFault(Exception):
    """The model gave no answer. The text is for the user of the agent."""

    code = "model"


class RequestNotSent(ModelFault):
    """The rules for outgoing requests do not allow the address, or the key cannot be read."""


class RequestRejected(ModelFault):
    """The service refuses this request, or its answer is too long. Another request may succeed."""


class EmptyText(RequestRejected):
    """The service refuses a message because a text in it is empty."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The service and the parameters of each request."""

    url: str
    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    # Whether to ask for an answer in JSON, the maximum bytes of an answer, and the attempts.
    wants_json: bool = False
    max_answer: int = MAX_ANSWER
    attempts: int = ATTEMPTS

    @property
    def endpoint(self) -> str:
        """Return the URL for requests."""
        base = self.url.rstrip("/")
        return base if base.endswith(PATH) else base + PATH

    @property
    def host(self) -> str:
        """Return the name of the service in errors."""
        return urlsplit(self.url).hostname or self.url


class ChatModel:
    """Asks a model. `key` is the API key, "" for none. `first_pause_s` doubles with each retry.

    `tokens` is the number of tokens that the service has reported for all answers.
    """

    def __init__(
        self,
        client: GuardedClient,
        options: ModelOptions,
        key: str = "",
        *,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._client, self._options = client, options
        self._key, self._first_pause_s = key, first_pause_s
        self.tokens = 0

    async def ask(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        request_id: str = "",
    ) -> dict[str, Any]:
        """Return the message of the model: `content` and `tool_calls` as the API defines them.

        `request_id` is sent as the idempotency key. Raises EmptyText and ModelFault.
        """
        options = self._options
        limit = "max_completion_tokens" if NEW_LIMIT.match(options.model) else "max_tokens"
        fields = {
            "model": options.model,
            "messages": messages,
            "temperature": options.temperature,
            limit: options.max_tokens,
            "tools": tools or None,
            "response_format": {"type": "json_object"} if options.wants_json else None,
        }
        body = orjson.dumps({name: value for name, value in fields.items() if value is not None})
        return self._parse(await self._send(body, request_id))

    async def _send(self, body: bytes, request_id: str) -> Answer:
        """Send a request until the answer is not a temporary fault. Raises ModelFault."""
        headers, attempts = self._headers(request_id), self._options.attempts
        for attempt in range(1, attempts + 1):
            answer, fault = await self._try(body, headers)
            if answer is not None and not is_temporary(answer.status):
                return answer
            pause_s = self._first_pause_s * 2 ** (attempt - 1)
            if answer is not None:
                fault = self._describe(answer)
                if answer.retry_after_s is not None:
                    pause_s = answer.retry_after_s
            if pause_s > MAX_PAUSE_S:
                raise ModelFault(f"{fault}; it asks to wait {pause_s:.0f} s: try again later")
            if attempt < attempts:
                await asyncio.sleep(pause_s)
        raise ModelFault(f"{fault} (after {attempts} attempts)")

    async def _try(self, body: bytes, headers: Mapping[str, str]) -> tuple[Answer | None, str]:
        """Return (answer, "") or (None, the reason for a temporary fault). Raises ModelFault."""
        options = self._options
        request = Request("POST", options.endpoint, headers, body, ANSWER_S, options.max_answer)
        try:
            return await self._client.send(request), ""
        except AnswerTooLong as error:
            raise RequestRejected(f"{options.host}: {error}") from error
        except OutgoingRefused as error:
            raise RequestNotSent(self._clean(str(error))) from error
        except TlsFailed as error:
            raise ModelFault(self._clean(str(error))) from error
        except RequestFailed as error:
            return None, self._clean(str(error))

    def _headers(self, request_id: str) -> dict[str, str]:
        if not self._key.isascii() or not self._key.isprintable():
            raise ModelFault("api_key has characters that a header cannot contain")
        headers = {"Content-Type": "application/json"}
        headers |= {"Idempotency-Key": request_id} if request_id else {}
        return headers | ({"Authorization": f"Bearer {self._key}"} if self._key else {})

    def _parse(self, answer: Answer) -> dict[str, Any]:
        if answer.status != 200:
            fault = self._describe(answer)
            if EMPTY_TEXT in fault.lower():
                raise EmptyText(fault)
            raise (RequestRejected if answer.status in REJECTED else ModelFault)(fault)
        try:
            completion = orjson.loads(answer.body)
            message = completion["choices"][0]["message"]
        except (ValueError, LookupError, TypeError) as error:
            raise ModelFault(
                f"{self._options.host} does not answer like {PATH}: check `url`; the answer begins "
                f"with {self._clean(answer.body[:100].decode(errors='replace'))!r}"
            ) from error
        if not isinstance(message, dict):
            raise ModelFault(f"{self._options.host} does not answer like {PATH}: check `url`")
        self.tokens += _count_tokens(completion.get("usage"))
        return parse_response(message)

    def _describe(self, answer: Answer) -> str:
        """Return the fault in an answer, with what to check."""
        reason = self._clean(_reason_in(answer.body))
        text = f"{self._options.host} answers {answer.status} {answer.reason}".rstrip()
        if reason:
            text += f" ({reason})"
        return text + HINTS.get(answer.status, HINTS[300] if 300 <= answer.status < 400 else "")

    def _clean(self, text: str) -> str:
        """Return the text on one line, shortened and without the key."""
        hidden = text.replace(self._key, "***") if self._key else text
        return "".join(filter(str.isprintable, " ".join(hidden.split())))[:MAX_REASON]


HINTS = {
    300: ": Memrelay follows no redirects; set `url` to the final address",
    401: ": check `api_key`",
    403: ": check `api_key`",
    404: ": check `url` and `model`",
}


def is_temporary(status: int) -> bool:
    """Return whether a request with this status may succeed later."""
    return status in TEMPORARY or status >= 500


def _count_tokens(usage: object) -> int:
    """Return the tokens that an answer reports, 0 if it reports none."""
    total = usage.get("total_tokens") if isinstance(usage, dict) else 0
    if not isinstance(total, int) or isinstance(total, bool):
        return 0
    return min(max(total, 0), MAX_TOKENS)


def _reason_in(body: bytes) -> str:
    """Return the reason in the body of a fault: `error.message`, `error`, or `message`."""
    try:
        reason = orjson.loads(body)
    except ValueError:
        return ""
    for _ in range(2):
        if isinstance(reason, dict):
            reason = reason.get("error") or reason.get("message") or reason.get("detail") or ""
    return reason if isinstance(reason, str) else ""
