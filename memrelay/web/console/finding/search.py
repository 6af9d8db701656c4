"""Searches all pipelines that a caller may see."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from aiohttp import web

from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller
from memrelay.web.console.finding.contents import Contents, find_contents
from memrelay.web.console.finding.names import find_agents, find_pipelines
from memrelay.web.console.finding.result import Result
from memrelay.web.server.services import get_services

# Pipelines whose stores and logs are searched, and how many of them at once.
MAX_PIPELINES = 50
AT_ONCE = 16
# Results of each kind.
MAX_RESULTS = 50


@dataclass(frozen=True, slots=True)
class Found:
    """The results by kind, best first. `faults` are (uid, name, reason) of silent pipelines.

    `searched` and `total` are numbers of pipelines.
    """

    groups: tuple[tuple[str, tuple[Result, ...]], ...] = ()
    faults: tuple[tuple[str, str, str], ...] = ()
    searched: int = 0
    total: int = 0

    @property
    def count(self) -> int:
        """Return the number of results."""
        return sum(len(results) for _, results in self.groups)


async def find(request: web.Request, text: str) -> Found:
    """Return what the caller may see of a text. Each call has at most 2 s.

    Raises StoreBusy: when the catalog cannot be read.
    """
    caller = get_caller(request)
    pipelines = await get_services(request).directory.list_pipelines()
    visible = [served for served in pipelines if caller.sees(served.deployed.uid)]
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
    return Found(taken, faults, len(searched), len(visible))


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
