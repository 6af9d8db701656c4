"""Finds records, named memories and messages of one pipeline."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from aiohttp import web

from memrelay.bus.errors import BusError
from memrelay.bus.streams.log import read_log
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller
from memrelay.web.console.calls import NO_ANSWER, NO_BUS, TIMEOUT_S, Answer, Wanted, ask
from memrelay.web.console.finding.result import Result, score_names
from memrelay.web.console.search_hits import record_url
from memrelay.web.console.stores import list_record_stores
from memrelay.web.server.errors import Problem
from memrelay.web.server.services import get_services

Json = dict[str, Any]
# Records of each store, and named memories that are compared with the text.
MAX_RECORDS = 5
MAX_MEMORIES = 1000
# Messages of a swarm that are read to find one, and their bytes.
MAX_MESSAGES = 100
MAX_LOG_BYTES = 1 << 20
# The score of something whose id is the text.
EXACT = 10.0
MAX_TITLE = 280
GUID = re.compile(r"\S{8,128}")
# The id of a message: of its entry, or of one of the messages that the entry led to.
MESSAGE = re.compile(r"(?:[\w-]+/)?(([0-9]{10,19})-[0-9]{1,19})(?:\.\S*)?")


@dataclass(frozen=True, slots=True)
class Contents:
    """What was found in a pipeline. `fault` is why a part is missing, "" for no fault."""

    records: tuple[Result, ...] = ()
    memories: tuple[Result, ...] = ()
    messages: tuple[Result, ...] = ()
    fault: str = ""


async def find_contents(request: web.Request, served: Served, text: str) -> Contents:
    """Search the stores and logs of a pipeline at once."""
    stores = list_record_stores(served)
    wanted = _list_calls(get_caller(request).scopes, stores, text)
    answers, (messages, log_fault) = await asyncio.gather(
        asyncio.gather(*(_ask(request, served.deployed.uid, one) for one in wanted)),
        _find_messages(request, served, text),
    )
    faults = [answer.fault for answer in answers if answer.fault]
    records = [
        result
        for one, answer in zip(wanted, answers, strict=True)
        if one.name != "memories.list" and answer.output
        for result in _read_records(served, one, answer.output["items"])
    ]
    memories = [
        result
        for one, answer in zip(wanted, answers, strict=True)
        if one.name == "memories.list" and answer.output
        for result in _read_memories(served, answer.output["items"], text)
    ]
    unique = {result.url: result for result in sorted(records, key=lambda one: one.score)}
    fault = next(iter([*faults, log_fault]), "")
    return Contents(tuple(unique.values()), tuple(memories), messages, fault)


def _list_calls(scopes: Iterable[str], stores: Sequence[str], text: str) -> list[Wanted]:
    """Return the operations that find a text, as far as the scopes allow."""
    search = {"query": text, "limit": MAX_RECORDS, "mode": "hybrid", "plain": True}
    calls = [Wanted("memories.list", {"limit": MAX_MEMORIES})]
    if "search" in scopes:
        calls += [Wanted("records.search", search, store) for store in stores]
    if GUID.fullmatch(text):
        by_guid = {"filter": {"guid": {"eq": text}}, "limit": 1}
        calls += [Wanted("records.list", by_guid, store) for store in stores]
    return calls


async def _ask(request: web.Request, uid: str, wanted: Wanted) -> Answer:
    """Call an operation. A call that the pipeline refuses has a fault too."""
    try:
        (answer,) = await ask(request, uid, wanted)
    except Problem as problem:
        return Answer(None, f"{problem.detail[:1].upper()}{problem.detail[1:]}.")
    return answer


def _read_records(served: Served, wanted: Wanted, items: Iterable[Json]) -> Iterable[Result]:
    uid, name = served.deployed.uid, served.deployed.name
    for item in items:
        record, score = item.get("record", item), item.get("score", EXACT)
        url = record_url(uid, wanted.store, record["guid"])
        yield Result(record["content"][:MAX_TITLE], url, uid, name, record["kind"], score)


def _read_memories(served: Served, items: Iterable[Json], text: str) -> Iterable[Result]:
    uid, name = served.deployed.uid, served.deployed.name
    for item in items:
        names = (item["name"], item["id"], item["description"] or "", *(item["tags"] or ()))
        score = score_names(text, names)
        if score:
            url = f"/pipelines/{uid}/memories/{quote(item['id'], safe='')}"
            yield Result(item["name"], url, uid, name, item["description"] or "", score)


async def _find_messages(
    request: web.Request, served: Served, text: str
) -> tuple[tuple[Result, ...], str]:
    """Return the message whose id is the text, if a log of the pipeline has it, and a fault."""
    match = MESSAGE.fullmatch(text)
    if match is None:
        return (), ""
    entry, uid = match[1], served.deployed.uid
    try:
        async with asyncio.timeout(TIMEOUT_S):
            found = await asyncio.gather(
                *(_has_message(request, served, swarm, entry) for swarm in served.swarms)
            )
    except TimeoutError:
        return (), NO_ANSWER
    except BusError:
        return (), NO_BUS
    swarms = [swarm for swarm, is_there in zip(served.swarms, found, strict=True) if is_there]
    if not swarms:
        return (), ""
    url = f"/pipelines/{uid}/messages/{entry}"
    note = f"Swarms: {', '.join(swarms)}"
    return (Result(entry, url, uid, served.deployed.name, note, EXACT),), ""


async def _has_message(request: web.Request, served: Served, swarm: str, entry: str) -> bool:
    """Return whether the log of a swarm has a message of an entry.

    It stands behind the time of the entry, which is the first part of its id.
    """
    line, home = get_services(request).line, served.bundle.home_of(swarm)
    after = f"{int(entry.partition('-')[0]) - 1}-0"
    entries = await read_log(
        line, home, swarm, after=after, limit=MAX_MESSAGES, most_bytes=MAX_LOG_BYTES
    )
    prefixes = (f"{entry}.", f"{served.deployed.uid}/{entry}.")
    return any(one.mid.startswith(prefixes) for one in entries)
