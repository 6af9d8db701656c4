"""The page of one record: its text and fields, its history, and what is near it."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
from aiohttp import web

from memrelay.memory.engine.timestamps import format_time, parse_ms
from memrelay.memory.records.kinds import is_agent_memory, reserved_fault
from memrelay.memory.records.word_diff import WordDiff, compare_words
from memrelay.memory.validation import parse_number
from memrelay.web.api.answers import is_unchanged
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.console.agents import list_record_stores
from memrelay.web.console.calls import Call, ask
from memrelay.web.console.format import Clipped, clip_bytes
from memrelay.web.console.frame import (
    Page,
    PageRoutes,
    answer_tagged,
    find_served,
    make_tag,
    not_modified,
    render_page,
)
from memrelay.web.console.origin_reads import read_origins
from memrelay.web.console.receipt_reads import read_uses
from memrelay.web.console.record_reads import (
    PAGE_SIZE,
    Nearby,
    Reading,
    RecordRef,
    find_entry,
    find_record,
    make_record_commands,
    read_nearby,
    read_record,
    read_state,
)
from memrelay.web.server.errors import NotFound
from memrelay.web.server.options import find_public_url
from memrelay.web.services import get_services

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
    "valid_from",
    "valid_to",
)
PAGE = Page("Record", "/pipelines/{uid}/memory/{guid}", parent="Memory")
QUERY = {
    "store": "The store, by default the first one that has the record.",
    "from": "The number of the version to compare, by default the one before `to`.",
    "to": "The number of the version to compare it with, by default the latest.",
    "before": "The number of a version: the history shows only earlier ones.",
}
ERASURE = {"erasure": "The number of the erasure to show once the record is erased."}
ERRORS = {404: "There is no such pipeline or record.", 422: "The pipeline has no such store."}
MISSING = "Record not found. It may have expired or been erased."
# Bytes of the text and of the data on the page, each shown twice: to read and to edit.
MAX_TEXT_BYTES, MAX_DATA_BYTES = 48_000, 12_000
# Erasures among which the one of the record is looked up.
MAX_ERASURES = 1000
# The state of an erasure that will not change any more.
COMPLETE = "complete"
routes = PageRoutes(PAGE, errors=ERRORS)


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
    states = await asyncio.gather(*(_find_state(request, ref, reading, one) for one in (old, new)))
    before, after = (state["record"] if state else None for state in states)
    if before is None or after is None:
        missing = old if before is None else new
        fault = f"Version {missing} is not kept, or is a deletion."
        return Comparison(old, new, [], WordDiff([]), fault)
    words = await asyncio.to_thread(compare_words, before["content"], after["content"])
    return Comparison(old, new, _list_changed(before, after), words)


def _parse_number(request: web.Request, name: str) -> int:
    """Return the number of a state in the address, 0 for none."""
    return parse_number(request.query.get(name, ""), 0)


async def _find_state(
    request: web.Request, ref: RecordRef, reading: Reading, number: int
) -> Json | None:
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


@routes.page(query=QUERY | ERASURE)
async def record(request: web.Request) -> web.Response:
    """Show one record, deleted or not."""
    served = await find_served(request)
    ref, reading = await _find(request, served)
    if reading.latest is None and not reading.fault:
        return await _show_erasure(request, served, ref)
    present = reading.record
    nearby = await read_nearby(request, ref, present) if present else Nearby([], [])
    return await render_page(
        request,
        PAGE,
        "record.html",
        served,
        nearby=nearby,
        uses=await read_uses(request, ref),
        origins=await read_origins(request, ref),
        commands=make_record_commands(find_public_url(request), ref),
        **_text_values(request, served, ref, reading),
        **await _history_values(request, ref, reading),
    )


@routes.part("/text", "fragments/record_text.html", query={"store": QUERY["store"]})
async def text_fragment(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the text and the fields of a record."""
    ref = _ref(request, served)
    return _text_values(request, served, ref, await read_record(request, ref, limit=2))


@routes.part("/history", "fragments/record_history.html", query=QUERY)
async def history_fragment(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the history of a record with the changes between two of its versions."""
    ref = _ref(request, served)
    reading = await read_record(request, ref, _before(request))
    values = await _history_values(request, ref, reading)
    return values | {"reading": reading, "ref": ref}


@routes.fragment(
    PAGE.path + "/erasure", access=requires("admin"), query={"store": QUERY["store"]} | ERASURE
)
async def erasure_fragment(request: web.Request) -> web.Response:
    """Return the progress of an erasure."""
    served = await find_served(request)
    tag = make_tag(request, COMPLETE)
    if is_unchanged(request, tag):
        return not_modified(tag)
    erasure = await _read_erasure(request, _ref(request, served))
    if erasure is None:
        raise NotFound("There is no such erasure.")
    state = COMPLETE if erasure.get("ended_at") else erasure
    return await answer_tagged(request, state, "fragments/record_erasure.html", erasure=erasure)


def _ref(request: web.Request, served: Served) -> RecordRef:
    store = request.query.get("store") or list_record_stores(served)[0]
    return RecordRef(served.deployed.uid, store, request.match_info["guid"])


def _before(request: web.Request) -> str:
    before = request.query.get("before", "")
    return before if before.isascii() and before.isdecimal() else ""


async def _find(request: web.Request, served: Served) -> tuple[RecordRef, Reading]:
    store = request.query.get("store")
    stores = [store] if store else list_record_stores(served)
    return await find_record(request, served, stores, _before(request))


def _text_values(
    request: web.Request, served: Served, ref: RecordRef, reading: Reading
) -> dict[str, Any]:
    """Return the template values of the text and the fields."""
    record, last = reading.record, reading.last_record
    days = get_services(request).options.history_days
    content, data = Clipped("", 0), Clipped("", 0)
    if last:
        content = clip_bytes(last["content"], MAX_TEXT_BYTES)
        pretty = orjson.dumps(last["data"], option=orjson.OPT_INDENT_2).decode()
        data = clip_bytes(pretty, MAX_DATA_BYTES)
    return {
        "ref": ref,
        "reading": reading,
        "record": record,
        "content": content,
        "data": data,
        "deletion": describe_deletion(reading, days),
        "missing": MISSING,
        "entry": find_entry(served, ref.guid),
        "is_agent_memory": record is not None and is_agent_memory(record["kind"]),
        "is_reserved": record is not None and bool(reserved_fault(record["kind"])),
    }


async def _history_values(request: web.Request, ref: RecordRef, reading: Reading) -> dict[str, Any]:
    """Return the template values of the history."""
    more = len(reading.states) > PAGE_SIZE
    shown = {name: request.query.get(name, "") for name in ("from", "to", "before")}
    return {
        "history_url": ref.url("/history", **shown),
        "rows": list_rows(reading.states),
        "comparison": await compare_states(request, ref, reading),
        "older": str(reading.states[PAGE_SIZE - 1]["number"]) if more else "",
        "before": _before(request),
    }


async def _show_erasure(request: web.Request, served: Served, ref: RecordRef) -> web.Response:
    """Show the erasure of a record. Raises NotFound if there is none to show."""
    is_asked = "erasure" in request.query and "admin" in get_caller(request).scopes
    erasure = await _read_erasure(request, ref) if is_asked else None
    if erasure is None:
        raise NotFound(MISSING)
    number = request.query["erasure"]
    return await render_page(
        request, PAGE, "record_erased.html", served, ref=ref, erasure=erasure, number=number
    )


async def _read_erasure(request: web.Request, ref: RecordRef) -> dict[str, Any] | None:
    """Return the erasure in the address, or the `fault` why it cannot be read now."""
    call = Call("records.erasures", {"limit": MAX_ERASURES}, ref.store)
    (answer,) = await ask(request, ref.uid, call)
    if answer.fault:
        return {"fault": answer.fault}
    number = request.query.get("erasure", "")
    every = answer.output["items"]
    return next((one | {"fault": ""} for one in every if str(one["number"]) == number), None)
