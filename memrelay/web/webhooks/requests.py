"""The list of requests to webhooks: the last accepted and the last refused ones of each agent.

Rows are written in the background, to two capped streams per agent on the bus, which all web
processes share. A row has no body, secret, token or challenge. Requests to unknown pipelines and
agents are counted, and not listed. A refused body of an authenticated sender leaves a dead letter.
"""

import asyncio
import hashlib
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import uuid4

import orjson
from aiohttp import web
from msgspec import Struct

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusError
from memrelay.bus.keys import webhook_changes_key, webhook_requests_key
from memrelay.logs import get_logger
from memrelay.memory.control.dead_letters import DeadLetter, DeadLetters
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.pipelines.check import CheckedAgent
from memrelay.pipelines.webhook_senders import SENDERS
from memrelay.web.webhooks.request import MAX_KEPT_CHARACTERS, HookRequest

log = get_logger(__name__)
# Rows of one stream.
MAX_ROWS = 100
# Refused requests of an agent that one process lists in a second. The others are only counted.
MAX_REFUSED_PER_S = 5
# How long rows wait for others, with which they are written together.
WRITE_DELAY_S = 0.5
# How long a stream is kept after its last row, so those of removed agents and pipelines expire.
KEPT_S = 30 * 86_400
# Commands that are sent together.
MAX_COMMANDS = 500
# Statuses of a refused body: it cannot be read, or is too large.
BODY_STATUSES = (400, 413, 415, 422)
# Outcomes of requests that were not refused.
OUTCOMES = ("accepted", "handshake", "ignored")
# The reasons in metrics, by status.
REASONS = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method",
    408: "timeout",
    413: "too_large",
    415: "media_type",
    499: "connection_closed",
    500: "internal_error",
    503: "unavailable",
}


class RequestNote(Struct, gc=False):
    """The properties of one request, for the list and the metrics.

    `verdict` is how it was authenticated: signed, token, key, network, or local (no keys exist).
    It is `invalid` for a wrong signature, else none. `outcome` is accepted, handshake, ignored or
    refused. `entry` is the id of the appended entry. `at_ms` is the time of the answer, Unix ms.
    """

    method: str
    uid: str = ""
    # Hash of the bundle.
    bundle: str = ""
    agent: CheckedAgent | None = None
    verdict: str = "none"
    outcome: str = "accepted"
    event: str = ""
    delivery_id: str = ""
    entry: str = ""
    reason: str = ""
    headers: dict[str, str] = {}
    status: int = 0
    at_ms: int = 0

    @property
    def has_lost_body(self) -> bool:
        """Return whether the body of an authenticated sender was refused."""
        is_authenticated = self.verdict not in ("none", "invalid")
        return is_authenticated and self.method == "POST" and self.status in BODY_STATUSES


NOTE = web.RequestKey("webhook_note", RequestNote)
# Id of the entry that a request appended.
APPENDED = web.RequestKey("appended", str)


class WebhookRequests:
    """Counts requests since the start, and writes the list. `line` reaches the bus."""

    def __init__(self, line: ReconnectingConnection, dead_letters: DeadLetters) -> None:
        self._line, self._dead_letters = line, dead_letters
        # Requests by uid, alias and reason. The unknown ones have no agent.
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.unknown = 0
        # Rows to be written, by uid, alias and whether they were refused.
        self._rows: dict[tuple[str, str, bool], deque[RequestNote]] = {}
        self._lost_bodies: deque[RequestNote] = deque(maxlen=MAX_ROWS)
        # Refused requests of the current second, by uid and alias.
        self._second, self._refused = 0, Counter[tuple[str, str]]()
        self._writing: asyncio.Task[None] | None = None

    def add(self, request: web.Request, status: int, reason: str = "") -> None:
        """Count an answered request, and list it. `reason` is why it was refused."""
        note = request[NOTE]
        if note.agent is None:
            self.unknown += 1
            return
        uid, alias = note.uid, note.agent.agent.alias
        try:  # faster than `get`, which is Python
            note.entry = request[APPENDED]
        except KeyError:
            note.entry = ""
        # A message whose result did not come in time is accepted all the same.
        is_refused, is_listed = status >= 400 and not note.entry, True
        label = REASONS.get(status, "invalid") if is_refused else note.outcome
        self.counts[uid, alias, label] += 1
        note.status, note.at_ms = status, time.time_ns() // 1_000_000
        if is_refused:
            is_listed = self._may_list(uid, alias)
            if not is_listed and not note.has_lost_body:
                return
            note.outcome, note.reason = "refused", note.reason or reason
            _note_headers(note, note.agent, request)
            if note.has_lost_body:
                self._lost_bodies.append(note)
        if is_listed:
            rows = self._rows.get((uid, alias, is_refused))
            if rows is None:
                rows = self._rows[uid, alias, is_refused] = deque(maxlen=MAX_ROWS)
            rows.append(note)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_soon())

    def count_refused(self) -> dict[str, int]:
        """Return the number of refused requests since the start, by uid of the pipeline."""
        found = Counter[str]()
        for (uid, _, label), count in self.counts.items():
            found[uid] += count if label not in OUTCOMES else 0
        return dict(found)

    async def close(self) -> None:
        """Write the last rows."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        await self._write()

    def _may_list(self, uid: str, alias: str) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            self._second = second
            self._refused.clear()
        self._refused[uid, alias] += 1
        return self._refused[uid, alias] <= MAX_REFUSED_PER_S

    async def _write_soon(self) -> None:
        while self._rows or self._lost_bodies:
            await asyncio.sleep(WRITE_DELAY_S)
            await self._write()

    async def _write(self) -> None:
        """Write all rows. They are lost if the bus does not accept them."""
        await self._write_dead_letters()
        listed, self._rows = self._rows, {}
        commands: list[tuple[str | int | bytes, ...]] = []
        for (uid, alias, is_refused), rows in listed.items():
            key = webhook_requests_key(uid, alias, is_refused=is_refused)
            commands += [
                ("XADD", key, "MAXLEN", MAX_ROWS, "*", "row", orjson.dumps(_make_row(note)))
                for note in rows
            ]
            commands.append(("EXPIRE", key, KEPT_S))
        for uid in {uid for uid, _, _ in listed}:
            changes = webhook_changes_key(uid)
            commands += [("INCR", changes), ("EXPIRE", changes, KEPT_S)]
        try:
            for start in range(0, len(commands), MAX_COMMANDS):
                await self._line.call_all(commands[start : start + MAX_COMMANDS])
        except BusError as error:
            log.debug("webhook_requests_lost", reason=str(error))

    async def _write_dead_letters(self) -> None:
        letters = [_make_dead_letter(note) for note in self._lost_bodies]
        self._lost_bodies.clear()
        try:
            if letters:
                await self._dead_letters.add(letters)
        except (StoreBusy, StoreBroken) as error:
            log.warning("webhook_dead_letters_lost", letters=len(letters), reason=str(error))


def _note_headers(note: RequestNote, agent: CheckedAgent, request: web.Request) -> None:
    """Note the headers of a refused request, with its event and id. Its body is not read."""
    hook = HookRequest(request, b"", agent.sender or SENDERS["standard"])
    note.headers = hook.kept_headers
    note.event = note.event or hook.find_in_head(hook.sender.event)
    note.delivery_id = note.delivery_id or hook.find_in_head(hook.sender.id)


def _make_dead_letter(note: RequestNote) -> DeadLetter:
    """Return a dead letter without the body. All tries of one delivery have the same id."""
    alias = note.agent.agent.alias if note.agent else ""
    delivery = f"{alias} {note.delivery_id}" if note.delivery_id else uuid4().hex
    digest = hashlib.sha256(delivery.encode(errors="surrogateescape")).hexdigest()
    headers = [f"{name}: {_clip(value)}" for name, value in note.headers.items()]
    return DeadLetter(
        note.uid,
        f"webhook-{digest[:32]}",
        "",
        b"",
        "\n".join([f"the webhook was refused with {note.status}: {note.reason}", *headers]),
        note.bundle,
        note.at_ms,
        agent=alias,
        entry=uuid4().hex,
    )


def _make_row(note: RequestNote) -> dict[str, Any]:
    return {
        "at": format_time(note.at_ms),
        "status": note.status,
        "method": note.method,
        "outcome": note.outcome,
        "verdict": note.verdict,
        "event": _clip(note.event),
        "delivery_id": _clip(note.delivery_id),
        "message_id": note.entry,
        "reason": _clip(note.reason),
        "headers": {name: _clip(value) for name, value in note.headers.items()},
    }


def _clip(text: str) -> str:
    """Return the beginning of a text, as valid UTF-8."""
    return text[:MAX_KEPT_CHARACTERS].encode(errors="replace").decode()


def list_receivers(agents: Iterable[CheckedAgent]) -> list[CheckedAgent]:
    """Return the agents that webhooks reach: first those with settings of webhooks, by alias."""
    receivers = [agent for agent in agents if agent.takes_messages]
    return sorted(receivers, key=lambda agent: (not _is_configured(agent), agent.agent.alias))


def _is_configured(agent: CheckedAgent) -> bool:
    return agent.sender is not None or agent.is_guarded


async def describe_webhooks(
    line: ReconnectingConnection, uid: str, agents: Sequence[CheckedAgent], url: str, limit: int
) -> list[dict[str, Any]]:
    """Return the webhooks of agents with their last `limit` requests, the newest first.

    `url` is that of the server. Secrets are named by their references. Raises BusError.
    """
    commands = [
        ("XREVRANGE", key, "+", "-", "COUNT", min(limit, MAX_ROWS))
        for agent in agents
        for is_refused in (False, True)
        for key in [webhook_requests_key(uid, agent.agent.alias, is_refused=is_refused)]
    ]
    replies: list[Any] = []
    for start in range(0, len(commands), MAX_COMMANDS):
        replies += await line.call_all(commands[start : start + MAX_COMMANDS])
    return [
        _describe(agent, f"{url}/webhooks/{uid}/{agent.agent.alias}")
        | {"requests": _merge(accepted, refused, limit)}
        for agent, accepted, refused in zip(agents, replies[::2], replies[1::2], strict=True)
    ]


def _describe(agent: CheckedAgent, url: str) -> dict[str, Any]:
    return {
        "agent": agent.agent.alias,
        "url": url,
        "sender": agent.sender.name if agent.sender is not None else "standard",
        "secrets": list(agent.secrets),
        "token": agent.token,
        "networks": [str(network) for network in agent.networks],
    }


def _merge(accepted: Any, refused: Any, limit: int) -> list[dict[str, Any]]:
    # The server answers null to COUNT 0.
    rows = [orjson.loads(fields[1]) for _, fields in (*(accepted or ()), *(refused or ()))]
    return sorted(rows, key=lambda row: row["at"], reverse=True)[:limit]
