"""Deliveries of events as turns: what a call has, and the delivery to a server."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from typing import Any, Protocol, Self
from urllib.parse import quote

from memrelay.capture.configuration import Configuration
from memrelay.guarded_http.client import (
    Answer,
    AnswerTooLong,
    GuardedClient,
    Request,
    RequestFailed,
)
from memrelay.guarded_http.rules import OutgoingRefused, operator_rules

Json = dict[str, Any]
TIMEOUT_S = 30.0
# Statuses after which a later attempt may succeed, and those that all turns would get.
RETRIED = (408, 425, 429)
MISCONFIGURED = (401, 403, 404, 405)
# The input of capture.context, which any store for turns accepts.
PROBE = {"project": "capture"}


class NotDelivered(Exception):
    """The store cannot be reached now. A later attempt may succeed."""


class TurnsRefused(Exception):
    """The store refuses the turns of a call, and may accept others."""


class Misconfigured(Exception):
    """No turn can be delivered until the user changes the configuration."""


class Delivery(Protocol):
    """A store to which turns are delivered. Use it as an asynchronous context."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def add(self, call: Json) -> None:
        """Call turns.add. Raises NotDelivered, TurnsRefused and Misconfigured."""


def make_calls(events: Sequence[Json], user: str) -> list[tuple[Json, list[Json]]]:
    """Return (input of turns.add, its events) for each run of events of one session."""
    runs = groupby(events, key=lambda event: (event["tool"], event["session"]))
    return [(make_call(run := list(group), user), run) for _, group in runs]


def make_call(events: Sequence[Json], user: str) -> Json:
    """Return the input of turns.add for events of one session."""
    tool, session = events[0]["tool"], events[0]["session"]
    return {
        "thread": f"capture/{tool}/{session}",
        "agent": tool,
        "user": user,
        "messages": [_make_message(event) for event in events],
    }


def _make_message(event: Json) -> Json:
    identity = [event[name] for name in ("session", "turn", "role", "text")]
    item = {name: event[name] for name in ("project", "branch", "tool")}
    if isinstance(event.get("exit"), int):
        item["exit"] = event["exit"]
    return {
        "id": sha256(json.dumps(identity).encode()).hexdigest()[:32],
        "role": event["role"],
        "content": event["text"],
        "name": event.get("name", ""),
        "at": datetime.fromtimestamp(event["at"] / 1000, UTC).isoformat(),
        "item": item,
    }


class ServerDelivery:
    """Delivers to a server over REST."""

    def __init__(self, configuration: Configuration, key: str) -> None:
        uid, store = quote(configuration.pipeline, safe=""), quote(configuration.store, safe="")
        self._url = f"{configuration.url.rstrip('/')}/v1/pipelines/{uid}"
        self._query = f"?store={store}" if store else ""
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._client = GuardedClient(operator_rules("capture", private=True), "capture")

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.__aexit__()

    async def add(self, call: Json) -> None:
        """Call turns.add. Raises NotDelivered, TurnsRefused and Misconfigured."""
        answer = await self._post("turns/add", call)
        if answer.status < 300:
            return
        text = f"the server answered {answer.status}"
        if answer.status >= 500 or answer.status in RETRIED:
            raise NotDelivered(text)
        if answer.status < 400 or answer.status in MISCONFIGURED:
            raise Misconfigured(f"{text}; check the address, the pipeline and the key")
        # A store that the pipeline no longer has refuses everything, so the turns wait for another.
        probed = await self._post("capture/context", PROBE)
        if probed.status == answer.status:
            raise Misconfigured(f"{text}: {_shorten(probed)}")
        raise TurnsRefused(f"{text}: {_shorten(answer)}")

    async def _post(self, path: str, given: Json) -> Answer:
        """Return the answer to an operation. Raises NotDelivered and Misconfigured."""
        url, body = f"{self._url}/{path}{self._query}", json.dumps(given).encode()
        request = Request("POST", url, self._headers, body, timeout_s=TIMEOUT_S)
        try:
            return await self._client.send(request)
        except (RequestFailed, AnswerTooLong) as error:
            raise NotDelivered(str(error)) from error
        except OutgoingRefused as error:
            raise Misconfigured(str(error)) from error


def _shorten(answer: Answer) -> str:
    return answer.body[:500].decode(errors="replace")
