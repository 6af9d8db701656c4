"""Running kept inputs again, a page at a time. The HTTP route and the CLI share this."""

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, NamedTuple

from memrelay.bus.streams.entry import LONGEST_ID, NewEntry
from memrelay.bus.streams.via import parse_via
from memrelay.memory.engine.timestamps import parse_ms
from memrelay.pipelines.expressions import (
    Expression,
    ExpressionFault,
    compile_expression,
    parse_json_text,
)

# Prefix of the idempotency keys of inputs that run again as new ones.
REPLAY_PREFIX = "replay:"
# Characters of a replay's key: the key of an input has its id besides.
LONGEST_KEY = LONGEST_ID - len(REPLAY_PREFIX) - 50
MAX_RESULT_BYTES = 65_536
CURSOR = re.compile(r"([0-9]{1,18})-([0-9.]{1,64})", re.ASCII)
# Calls the operation inputs.list with this input, and returns its output.
ListInputs = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
# Appends entries to the input of the pipeline, all or none.
Append = Callable[[Sequence[NewEntry]], Awaitable[Any]]


class InvalidReplay(ValueError):
    """An argument of a replay is invalid. The text names the rule."""


class NotRemembered(Exception):
    """Inputs cannot run again without a second effect. Nothing of the page has run."""

    def __init__(self, ident: str, forgotten: int, total: int) -> None:
        super().__init__(
            f"{forgotten} of {total} inputs, the first one {ident}, have no idempotency key that "
            "the pipeline remembers, so their effects would happen twice; replay them as new inputs"
        )


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The inputs to run again, and how.

    `since` and `until` are RFC 3339 or Unix ms; the default of `until` is now. `agent` is the alias
    of the agent to which the inputs were sent. `filter` is a JMESPath expression over `to_value`.
    As new inputs, all have new ids. A further call with the same `key` runs none of them twice.
    """

    since: str = ""
    until: str = ""
    agent: str = ""
    filter: str = ""
    as_new: bool = False
    dry_run: bool = False
    key: str = ""
    limit: int = 100
    cursor: str = ""


class ReplayPage(NamedTuple):
    """The result of a page: the key of the replay, and the number of its inputs."""

    key: str
    replayed: int
    next_cursor: str | None


async def replay_page(
    uid: str, request: ReplayRequest, list_inputs: ListInputs, append: Append
) -> ReplayPage:
    """Append the inputs of a page again, in their order.

    Inputs that a replay has appended are left out: their originals are kept. Raises InvalidReplay,
    NotRemembered, and what the functions raise.
    """
    key, expression = request.key or token_hex(8), _compile(request.filter)
    if len(key) > LONGEST_KEY or not key.isprintable():
        raise InvalidReplay(f"`key` must have at most {LONGEST_KEY} printable characters")
    until_ms, cursor = _parse_position(request)
    page = await list_inputs(
        {
            "since": request.since,
            "until": str(until_ms),
            "agent": request.agent,
            "limit": request.limit,
            "cursor": cursor,
        }
    )
    chosen = [
        item
        for item in page["items"]
        if not item["key"].startswith(REPLAY_PREFIX) and _passes(item, expression)
    ]
    forgotten = [item["id"] for item in chosen if not (request.as_new or item["remembered"])]
    if forgotten:
        raise NotRemembered(forgotten[0], len(forgotten), len(chosen))
    if chosen and not request.dry_run:
        prefix = f"{REPLAY_PREFIX}{key}:" if request.as_new else ""
        await append([_make_entry(uid, item, prefix) for item in chosen])
    following = page["next_cursor"]
    return ReplayPage(key, len(chosen), None if following is None else f"{until_ms}-{following}")


def to_value(item: dict[str, Any]) -> dict[str, Any]:
    """Return the value that a filter gets: an item of inputs.list, with its data as JSON, and with
    the text of its message.
    """
    data = parse_json_text(item["data"])
    parts = data.get("args") if isinstance(data, dict) else None
    first = parts[0] if isinstance(parts, list) and parts else None
    text = first.get("text", "") if isinstance(first, dict) and not item["operation"] else ""
    return item | {"data": data, "text": text}


def _passes(item: dict[str, Any], expression: Expression | None) -> bool:
    if expression is None:
        return True
    try:
        value = expression.evaluate(to_value(item), MAX_RESULT_BYTES)
    except ExpressionFault as fault:
        raise InvalidReplay(f"`filter`: {fault}") from fault
    return not (value is None or value is False or value in ("", [], {}))


def _compile(text: str) -> Expression | None:
    try:
        return compile_expression(text) if text else None
    except ValueError as error:
        raise InvalidReplay(f"`filter`: {error}") from error


def _parse_position(request: ReplayRequest) -> tuple[int, str]:
    """Return the end of the period, which is the same for all pages, and the cursor in it."""
    if request.cursor:
        position = CURSOR.fullmatch(request.cursor)
        if position is None:
            raise InvalidReplay("`cursor` is invalid; omit it to start at the first page")
        return int(position[1]), position[2]
    until_ms = parse_ms(request.until) if request.until else time.time_ns() // 1_000_000
    if until_ms is None:
        raise InvalidReplay("`until` must be a time such as 2026-11-28T09:00:00Z, or Unix ms")
    return until_ms, ""


def _make_entry(uid: str, item: dict[str, Any], prefix: str) -> NewEntry:
    """Return the entry that runs an input again: under its key, or with a new one."""
    return NewEntry(
        uid,
        item["data"].encode(),
        item["swarm"],
        item["agent"],
        f"{prefix}{item['id']}" if prefix else item["key"],
        published=item["published"],
        hop=item["hop"],
        origin=item["origin"],
        op=item["operation"],
        store=item["store"],
        actor=item["actor"],
        traceparent=item["traceparent"],
        via=parse_via(item["via"]),
    )
