"""How the page of a record shows its history: who changed what, and the changes between states."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
from aiohttp import web

from memrelay.memory.engine.timestamps import format_time, parse_ms
from memrelay.web.console.record.reads import PAGE_SIZE, Reading, RecordRef, read_state
from memrelay.web.console.record.word_diff import WordDiff, compare_words

Json = dict[str, Any]
DAY_MS = 86_400_000
CHANGES = {
    "update": "edited",
    "append": "text appended",
    "delete": "deleted",
    "restore": "restored",
}
FIELDS = (
    "kind",
    "scope",
    "source",
    "tags",
    "key",
    "owner",
    "data",
    "in_context",
    "expires_at",
)
# Digits of a state's number in an address.
MAX_DIGITS = 18


class Row(NamedTuple):
    """A state and the change that led to it. `at` is "" if that is not kept."""

    number: int
    at: str
    actor: str
    change: str
    reason: str
    is_deleted: bool


class ChangedField(NamedTuple):
    """A field that differs between two states."""

    name: str
    old: str
    new: str


class Comparison(NamedTuple):
    """What has changed from one state to another. `words` is None if the texts are too long."""

    old: int
    new: int
    fields: list[ChangedField]
    words: WordDiff | None
    fault: str = ""


class Deletion(NamedTuple):
    """Who deleted a record. `until` is when it can be restored, "" if it may be gone soon."""

    actor: str
    at: str
    reason: str
    until: str


def list_rows(states: Sequence[Json]) -> list[Row]:
    """Return the rows of a page of the history: the change that ended a state led to the next."""
    earlier = [*states[1:], None]
    return [_to_row(state, before) for state, before in zip(states, earlier, strict=False)][
        :PAGE_SIZE
    ]


def _to_row(state: Json, before: Json | None) -> Row:
    number, record = state["number"], state["record"]
    if before is not None and before["number"] == number - 1:
        change = CHANGES[before["change"]]
        about = before["changed_at"], before["actor"], change, before["reason"] or ""
    elif number == 1 and record is not None:
        about = record["created_at"], "", "created", ""
    else:
        about = "", "", "", ""
    return Row(number, *about, is_deleted=record is None)


def describe_deletion(reading: Reading, history_days: float) -> Deletion | None:
    """Return who deleted a record and until when it can be restored, None if it exists."""
    if reading.latest is None or reading.record is not None or len(reading.states) < 2:
        return None
    last = reading.states[1]
    deleted_ms, expires_at = parse_ms(last["changed_at"]) or 0, last["record"]["expires_at"]
    until_ms = deleted_ms + int(history_days * DAY_MS)
    if expires_at:
        until_ms = min(until_ms, parse_ms(expires_at) or until_ms)
    until = format_time(until_ms) if until_ms > deleted_ms else ""
    return Deletion(last["actor"], last["changed_at"], last["reason"] or "", until)


async def compare_states(
    request: web.Request, ref: RecordRef, reading: Reading
) -> Comparison | None:
    """Return the changes between the states in the address, by default the latest two.

    Returns None if there are not two states with a text.
    """
    kept = [state["number"] for state in reading.states if state["record"]]
    old, new = (_parse_number(request, name) for name in ("from", "to"))
    if not (old and new):
        if len(kept) < 2:
            return None
        old, new = kept[1], kept[0]
    states = await asyncio.gather(*(_find(request, ref, reading, one) for one in (old, new)))
    before, after = (state["record"] if state else None for state in states)
    if before is None or after is None:
        missing = old if before is None else new
        fault = f"Version {missing} is not kept, or is a deletion."
        return Comparison(old, new, [], WordDiff([]), fault)
    words = await asyncio.to_thread(compare_words, before["content"], after["content"])
    return Comparison(old, new, _list_changed(before, after), words)


def _parse_number(request: web.Request, name: str) -> int:
    """Return the number of a state in the address, 0 for none."""
    given = request.query.get(name, "")
    is_number = given.isascii() and given.isdecimal() and len(given) <= MAX_DIGITS
    return int(given) if is_number else 0


async def _find(request: web.Request, ref: RecordRef, reading: Reading, number: int) -> Json | None:
    shown = next((state for state in reading.states if state["number"] == number), None)
    return shown or await read_state(request, ref, number)


def _list_changed(before: Json, after: Json) -> list[ChangedField]:
    return [
        ChangedField(name, _to_text(before[name]), _to_text(after[name]))
        for name in FIELDS
        if before[name] != after[name]
    ]


def _to_text(value: Any) -> str:
    if value is None or value == "":
        return "(none)"
    return value if isinstance(value, str) else orjson.dumps(value).decode()
