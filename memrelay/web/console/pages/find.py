"""The page "Find": one box over all pipelines that the caller may see.

Names are compared here. Stores and logs of up to 50 pipelines are searched at once.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from aiohttp import web

from memrelay.bus.errors import BusError
from memrelay.bus.streams.log import read_log
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller, list_visible
from memrelay.web.console.agents import list_agents, list_record_stores
from memrelay.web.console.calls import NO_ANSWER, NO_BUS, TIMEOUT_S, Call, ask_refusable
from memrelay.web.console.frame import Page, PageRoutes, render_page
from memrelay.web.console.search_hits import record_url
from memrelay.web.services import get_services

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
# Pipelines whose stores and logs are searched, and how many of them at once.
MAX_PIPELINES = 50
AT_ONCE = 16
# Results of each kind.
MAX_RESULTS = 50
# Pipelines with a link to the search of their messages.
MAX_LINKED = 10
PAGE = Page("Find", "/find", menu="main", order=10)
# Characters of a search.
MAX_QUERY = 500
routes = PageRoutes(PAGE)


@dataclass(frozen=True, slots=True)
class Result:
    """Something that was found. `note` describes it. Results with higher scores come first."""

    title: str
    url: str
    uid: str
    pipeline: str
    note: str = ""
    score: float = 0.0


def score_names(text: str, names: tuple[str, ...]) -> float:
    """Return how well the first of some names, or any of them, matches a text; 0 for not at all.

    All words of the text must occur in the names.
    """
    query = text.casefold().strip()
    if query in (one.casefold() for one in names):
        return 3.0
    if names[0].casefold().startswith(query):
        return 2.0
    everything = " ".join(names).casefold()
    return 1.0 if all(word in everything for word in query.split()) else 0.0


def find_pipelines(pipelines: Iterable[Served], text: str) -> Iterator[Result]:
    """Yield the pipelines whose names contain all words of a text."""
    for served in pipelines:
        deployed, description = served.deployed, served.bundle.description
        score = score_names(text, (deployed.name, deployed.uid, description))
        if score:
            url = f"/pipelines/{deployed.uid}"
            yield Result(deployed.name, url, deployed.uid, deployed.name, description, score)


def find_agents(pipelines: Iterable[Served], text: str) -> Iterator[Result]:
    """Yield the agents whose names contain all words of a text."""
    for served in pipelines:
        uid, pipeline = served.deployed.uid, served.deployed.name
        for agent in list_agents(served.bundle):
            names = (agent.name, agent.alias, agent.block, agent.description)
            score = score_names(text, names)
            if score:
                note = f"{agent.block}. {agent.description}" if agent.description else agent.block
                url = f"/pipelines/{uid}#agent-{quote(agent.alias)}"
                yield Result(agent.name, url, uid, pipeline, note, score)


@dataclass(frozen=True, slots=True)
class Contents:
    """What was found in a pipeline. `fault` is why a part is missing, "" for no fault."""

    records: tuple[Result, ...] = ()
    memories: tuple[Result, ...] = ()
    messages: tuple[Result, ...] = ()
    fault: str = ""


async def find_contents(request: web.Request, served: Served, text: str) -> Contents:
    """Search the stores and logs of a pipeline at once."""
    calls = _list_calls(get_caller(request).scopes, list_record_stores(served), text)
    answers, (messages, log_fault) = await asyncio.gather(
        asyncio.gather(*(ask_refusable(request, served.deployed.uid, call) for call in calls)),
        _find_messages(request, served, text),
    )
    faults = [answer.fault for answer in answers if answer.fault]
    records, memories = list[Result](), list[Result]()
    for call, answer in zip(calls, answers, strict=True):
        items = answer.output["items"] if answer.output else []
        if call.name == "memories.list":
            memories += _read_memories(served, items, text)
        else:
            records += _read_records(served, call, items)
    unique = {result.url: result for result in sorted(records, key=lambda one: one.score)}
    fault = next(iter([*faults, log_fault]), "")
    return Contents(tuple(unique.values()), tuple(memories), messages, fault)


def _list_calls(scopes: Iterable[str], stores: Sequence[str], text: str) -> list[Call]:
    """Return the operations that find a text, as far as the scopes allow."""
    search = {"query": text, "limit": MAX_RECORDS, "mode": "hybrid", "plain": True}
    calls = [Call("memories.list", {"limit": MAX_MEMORIES})]
    if "search" in scopes:
        calls += [Call("records.search", search, store) for store in stores]
    if GUID.fullmatch(text):
        by_guid = {"filter": {"guid": {"eq": text}}, "limit": 1}
        calls += [Call("records.list", by_guid, store) for store in stores]
    return calls


def _read_records(served: Served, call: Call, items: Iterable[Json]) -> Iterable[Result]:
    uid, name = served.deployed.uid, served.deployed.name
    for item in items:
        record, score = item.get("record", item), item.get("score", EXACT)
        url = record_url(uid, call.store, record["guid"])
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
    line, store = get_services(request).line, served.bundle.swarm_owner(swarm)
    after = f"{int(entry.partition('-')[0]) - 1}-0"
    entries = await read_log(
        line, store, swarm, after=after, limit=MAX_MESSAGES, most_bytes=MAX_LOG_BYTES
    )
    prefixes = (f"{entry}.", f"{served.deployed.uid}/{entry}.")
    return any(one.mid.startswith(prefixes) for one in entries)


@dataclass(frozen=True, slots=True)
class FindResults:
    """The results by kind, best first. `faults` are (uid, name, reason) of silent pipelines.

    `searched` and `total` are numbers of pipelines.
    """

    groups: tuple[tuple[str, tuple[Result, ...]], ...] = ()
    faults: tuple[tuple[str, str, str], ...] = ()
    searched: int = 0
    total: int = 0
    # (uid, name) of pipelines whose messages can be searched on their own page.
    pipelines: tuple[tuple[str, str], ...] = ()

    @property
    def count(self) -> int:
        """Return the number of results."""
        return sum(len(results) for _, results in self.groups)


async def find(request: web.Request, text: str) -> FindResults:
    """Return what the caller may see of a text. Each call has at most 2 s.

    Raises StoreBusy: when the catalog cannot be read.
    """
    visible = await list_visible(request)
    searched = visible[:MAX_PIPELINES]
    parts = await _search_contents(request, searched, text)
    groups = (
        ("Records", (result for part in parts for result in part.records)),
        ("Named memories", (result for part in parts for result in part.memories)),
        ("Messages", (result for part in parts for result in part.messages)),
        ("Agents", find_agents(visible, text)),
        ("Pipelines", find_pipelines(visible, text)),
    )
    faults = tuple(
        (served.deployed.uid, served.deployed.name, part.fault)
        for served, part in zip(searched, parts, strict=True)
        if part.fault
    )
    taken = tuple((title, _take_best(results)) for title, results in groups)
    linked = tuple((one.deployed.uid, one.deployed.name) for one in visible[:MAX_LINKED])
    return FindResults(taken, faults, len(searched), len(visible), linked)


async def _search_contents(
    request: web.Request, pipelines: Iterable[Served], text: str
) -> list[Contents]:
    """Search several pipelines at once."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def search(served: Served) -> Contents:
        async with slots:
            return await find_contents(request, served, text)

    return await asyncio.gather(*(search(served) for served in pipelines))


def _take_best(results: Iterable[Result]) -> tuple[Result, ...]:
    ranked = sorted(results, key=lambda result: (-result.score, result.title))
    return tuple(ranked[:MAX_RESULTS])


@routes.page(query={"q": "The text, name or id to find."})
async def show_find(request: web.Request) -> web.Response:
    """Find records, named memories, messages, agents and pipelines."""
    text = request.query.get("q", "").strip()[:MAX_QUERY]
    found = await find(request, text) if text else FindResults()
    return await render_page(request, PAGE, "find.html", query=text, found=found)
