"""Reads a record for its page: states, the turns around it, the nearest records and its origin."""

import asyncio
import shlex
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from aiohttp import web

from memrelay.installation import PROGRAM as MEMRELAY
from memrelay.memory.records.ids import derive_guid, input_of_guid
from memrelay.memory.records.kinds import is_agent_memory
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller
from memrelay.web.console.calls import Answer, Call, ask, ask_refusable
from memrelay.web.console.examples import Example
from memrelay.web.server.errors import NotFound, Unprocessable

Json = dict[str, Any]
# States on a page of the history.
PAGE_SIZE = 30
NEAREST = 5
# Turns of the thread shown before the record, and after it.
NEIGHBORS = 2
# The beginning of the text by which near records are found.
QUERY_WORDS, QUERY_CHARACTERS = 40, 400
PYTHON = """\
from memrelay import connect_sync

with connect_sync({url!r}) as client:
    record = client.records.get({uid!r}, {guid!r}, store={store!r})"""
# Records of one agent and message that are recognized.
MAX_NUMBERS = 16
# The paths of inputs that are recognized: the message itself, and the later steps of its cascade,
# by the number of messages published before and that of the step (memrelay/web/trace/messages.py).
PATHS = ("", *(f".{published}+{step}" for published in range(8) for step in range(4)))


class RecordRef(NamedTuple):
    """The address of a record. `store` is a memory_id."""

    uid: str
    store: str
    guid: str

    def url(self, part: str = "", **query: Any) -> str:
        """Return the address of the record's page, or of a part of it."""
        parameters = {"store": self.store} | {name: one for name, one in query.items() if one}
        path = f"/pipelines/{self.uid}/memory/{quote(self.guid, safe='')}{part}"
        return f"{path}?{urlencode(parameters)}"

    def api(self, verb: str = "") -> str:
        """Return the path of the record in the API, or of a verb of it."""
        path = f"/v1/pipelines/{self.uid}/records/{quote(self.guid, safe='')}{verb}"
        return f"{path}?{urlencode({'store': self.store})}"

    def list_url(self, **query: str) -> str:
        """Return the address of the records of the store, narrowed by a value."""
        return f"/pipelines/{self.uid}/memory?{urlencode({'store': self.store} | query)}"


class Reading(NamedTuple):
    """The states of a record, the latest first, and one more to tell how the last began.

    `latest` is the latest state, also on later pages of the history. None if there is no such
    record, or nothing can be read now because of `fault`.
    """

    latest: Json | None = None
    states: Sequence[Json] = ()
    total: int = 0
    fault: str = ""

    @property
    def record(self) -> Json | None:
        """The present record, None if it is deleted."""
        return self.latest["record"] if self.latest else None

    @property
    def last_record(self) -> Json | None:
        """The record as it is, or as it was when it was deleted."""
        return self.record or next((one["record"] for one in self.states if one["record"]), None)


class Nearby(NamedTuple):
    """What is near a record: turns of its thread with itself, and records like it.

    `vector` describes the record's vector, "" if it is unknown.
    """

    turns: list[Json]
    nearest: list[Json]
    vector: str = ""
    fault: str = ""


async def find_record(
    request: web.Request, served: Served, stores: Iterable[str], before: str = ""
) -> tuple[RecordRef, Reading]:
    """Return the record of the path in the first of these stores that has it, with its states.

    `before` is the number of a state: only earlier ones are returned.
    """
    uid, guid = served.deployed.uid, request.match_info["guid"]
    refs = [RecordRef(uid, store, guid) for store in stores]
    readings = await asyncio.gather(*(read_record(request, ref, before) for ref in refs))
    pairs = list(zip(refs, readings, strict=True))
    has_it = [pair for pair in pairs if pair[1].latest]
    silent = [pair for pair in pairs if pair[1].fault]
    return (*has_it, *silent, *pairs)[0]


async def read_record(
    request: web.Request, ref: RecordRef, before: str = "", limit: int = PAGE_SIZE + 1
) -> Reading:
    """Return a page of the states of a record."""
    input: Json = {"guid": ref.guid, "limit": limit, "cursor": before}
    calls = [Call("records.history", input, ref.store)]
    if before:
        calls.append(Call("records.history", {"guid": ref.guid, "limit": 1}, ref.store))
    try:
        page, *more = await ask(request, ref.uid, *calls)
    except NotFound:
        return Reading()
    first = more[0] if more else page
    if page.fault or first.fault:
        return Reading(fault=page.fault or first.fault)
    states = page.output["items"]
    return Reading(first.output["items"][0], states, page.output["total"])


async def read_state(request: web.Request, ref: RecordRef, number: int) -> Json | None:
    """Return one state of a record, None if it is not kept."""
    input = {"guid": ref.guid, "limit": 1, "cursor": str(number + 1)}
    try:
        (answer,) = await ask(request, ref.uid, Call("records.history", input, ref.store))
    except NotFound:
        return None
    items = answer.output["items"] if answer.output else []
    return items[0] if items and items[0]["number"] == number else None


async def read_nearby(request: web.Request, ref: RecordRef, record: Json) -> Nearby:
    """Return the turns around a record and the records nearest to it."""
    searches, lists = _list_searches(request, ref, record), _list_turn_calls(ref, record)
    answers = await asyncio.gather(
        *(ask_refusable(request, ref.uid, call, Unprocessable) for call in (*searches, *lists))
    )
    searched = answers[0] if searches else Answer(None)
    turns = [one for answer in answers[len(searches) :] for one in _items(answer)]
    nearest = [one["record"] for one in _items(searched)]
    return Nearby(
        _around(turns, record),
        [one for one in nearest if one["guid"] != ref.guid][:NEAREST],
        _describe_vector(searched.output["explanation"], ref.guid) if searched.output else "",
        searched.fault,
    )


def _list_turn_calls(ref: RecordRef, record: Json) -> list[Call]:
    """Return the calls that list the turns before and after a turn."""
    if record["thread"] is None:
        return []
    in_thread = {"thread": {"eq": record["thread"]}}
    return [
        Call(
            "records.list",
            _select_kind(record)
            | {
                "filter": {"and": [in_thread, {"seq": {side: record["seq"]}}]},
                "order": order,
                "limit": 2 * NEIGHBORS,
            },
            ref.store,
        )
        for side, order in (("lt", "desc"), ("gt", "asc"))
    ]


def _list_searches(request: web.Request, ref: RecordRef, record: Json) -> list[Call]:
    query = " ".join(record["content"][:QUERY_CHARACTERS].split()[:QUERY_WORDS])
    if "search" not in get_caller(request).scopes or not query:
        return []
    input = {
        "query": query,
        "plain": True,
        "mode": "hybrid",
        "limit": NEAREST + 1,
        "explain": True,
    }
    return [Call("records.search", input | _select_kind(record), ref.store)]


def _select_kind(record: Json) -> Json:
    """Return the input that includes the memory of agents if the record belongs to it."""
    return {"kind": record["kind"]} if is_agent_memory(record["kind"]) else {}


def _items(answer: Answer) -> list[Json]:
    return list(answer.output["items"]) if answer.output else []


def _around(turns: list[Json], record: Json) -> list[Json]:
    """Return the turns next to a record with itself, none if it is alone."""
    if not turns:
        return []
    ordered = sorted([*turns, record], key=lambda turn: int(turn["seq"]))
    at = next(index for index, turn in enumerate(ordered) if turn["guid"] == record["guid"])
    return ordered[max(0, at - NEIGHBORS) : at + NEIGHBORS + 1]


def _describe_vector(explanation: Json, guid: str) -> str:
    """Return whether a record has a vector, as the explanation of its own search tells."""
    hit = next((one for one in explanation["hits"] if one["guid"] == guid), None)
    if hit is None:
        return ""
    arm = next((one for one in hit["arms"] if one["arm"] == "vector"), None)
    if arm is None:
        return "The store has no vectors."
    return "Has a vector." if arm["rank"] is not None or arm["raw"] else "Waits for its vector."


def make_record_commands(url: str, ref: RecordRef) -> list[Example]:
    """Return the commands that read a record, and its history. `url` is that of this server."""
    options = f"{ref.uid} {shlex.quote(ref.guid)} --store {shlex.quote(ref.store)}"
    return [
        Example("curl", f"curl {shlex.quote(url + ref.api())}"),
        Example("Command line", f"{MEMRELAY} records get {options}"),
        Example("Command line, history", f"{MEMRELAY} records history {options}"),
        Example("Python", PYTHON.format(url=url, **ref._asdict())),
    ]


def find_entry(served: Served, guid: str) -> str:
    """Return the entry of the message whose agents wrote a record, "" if none of them did.

    A guid derives from the entry, the agent and a number.
    """
    agents = tuple(agent.agent.alias for agent in served.bundle.agents if agent.calls)
    return _find_entry(served.deployed.uid, guid, agents)


@lru_cache(4096)
def _find_entry(uid: str, guid: str, agents: tuple[str, ...]) -> str:
    """Cached: a page that is refreshed asks for the same guid again."""
    entry = input_of_guid(guid)
    if not entry:
        return ""
    is_written = any(
        derive_guid(uid, entry + path, agent, number) == guid
        for path in PATHS
        for agent in agents
        for number in range(1, MAX_NUMBERS + 1)
    )
    return entry if is_written else ""
