"""Finds the records that a message has written.

The guid of a record derives from the entry, the agent and a counter, so the possible guids are
known. Each store is asked for them, until so many in a row do not exist.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from aiohttp import web

from memrelay.memory.operations import all_operations
from memrelay.memory.records.ids import derive_guid
from memrelay.pipelines.checked import CheckedAgent
from memrelay.web.api.directory import Served
from memrelay.web.api.operations import call_operation
from memrelay.web.trace.messages import MAX_CHARACTERS, Published, parse_step

# The search ends when so many numbers in a row have no record.
MISSING_IN_A_ROW = 8
# Numbers that are looked up at once, if the filter has room.
NUMBERS = 64
# Values of a filter.
MAX_GUIDS = 1000
MAX_RECORDS = 1000
# Bounds the later steps that are looked up although they published nothing.
SILENT_STEPS = 4


class Writer(NamedTuple):
    """An agent or operation that writes records: the name in their guids, the agent's block, and
    the path of the input for which it ran.
    """

    name: str
    block: str = ""
    path: str = ""


class Written(NamedTuple):
    """Records that a message has written. `is_complete` is False if there are more."""

    records: list[dict[str, Any]]
    is_complete: bool


async def find_records(
    request: web.Request,
    served: Served,
    entry: str,
    messages: Sequence[Published],
    timeout_s: float | None = None,
) -> Written:
    """Return the records that an entry has written, deleted ones included.

    `timeout_s` is the time for each call, by default that of the API. Raises Problem if the
    pipeline's owner does not answer.
    """
    stores = defaultdict[str, list[CheckedAgent]](list)
    for agent in served.bundle.agents:
        if agent.calls and agent.args.store:
            stores[agent.args.store].append(agent)
    paths = list_paths(messages, has_steps=_has_steps(served.bundle.agents))
    search = _Search(request, served.deployed.uid, entry, timeout_s)
    found = await asyncio.gather(
        *[
            search.find_in_store(store, _list_writers(agents, paths, messages))
            for store, agents in stores.items()
        ]
    )
    records = [record for written in found for record in written.records]
    return Written(
        records[:MAX_RECORDS],
        all(written.is_complete for written in found) and len(records) <= MAX_RECORDS,
    )


def list_paths(messages: Sequence[Published], *, has_steps: bool) -> list[str]:
    """Return the paths of the inputs that may have written: those that published something, and
    steps which may have published nothing.
    """
    paths = dict.fromkeys(["", *[one.position.path for one in messages]])
    for path in [*paths]:
        # A step whose result was awaited continues another one.
        while (step := parse_step(path)) is not None:
            path = step.base
            paths[path] = None
    if has_steps:
        counts = Counter(one.position.path for one in messages)
        paths |= dict.fromkeys(
            f"{path}.{published}+{number}"
            for path in [*paths]
            for published in range(min(counts[path], SILENT_STEPS) + 1)
            for number in range(SILENT_STEPS)
        )
    return [*paths]


def _list_writers(
    agents: Sequence[CheckedAgent], paths: Sequence[str], messages: Sequence[Published]
) -> list[Writer]:
    """Return what may have written to a store. An entry without messages may be a call."""
    writers = [
        Writer(agent.agent.alias, agent.block.name, path) for path in paths for agent in agents
    ]
    return writers if messages else [*map(Writer, _operations()), *writers]


@cache
def _operations() -> list[str]:
    """Return the names of the operations that change any store."""
    return [one.name for one in all_operations().values() if one.mutates and not one.store]


def _has_steps(agents: Sequence[CheckedAgent]) -> bool:
    """Return whether a cascade can have steps that run as their own input."""
    stores = {agent.args.store for agent in agents if agent.calls and agent.args.store}
    return len(stores) > 1 or any(
        agent.block.executor is not None or agent.flow is not None for agent in agents
    )


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for the records of an entry."""

    request: web.Request
    uid: str
    entry: str
    timeout_s: float | None

    async def find_in_store(self, store: str, writers: Sequence[Writer]) -> Written:
        """Return the records of these writers in one store."""
        writers = writers[: MAX_GUIDS // MISSING_IN_A_ROW]
        width = max(MISSING_IN_A_ROW, min(NUMBERS, MAX_GUIDS // len(writers)))
        records, start = list[dict[str, Any]](), 1
        while len(records) <= MAX_RECORDS:
            numbers = range(start, start + width)
            guids = self._derive(writers, numbers)
            found = await self._list(store, guids)
            records += found
            last = max((guids[one["guid"]][1] for one in found), default=0)
            if last <= numbers[-1] - MISSING_IN_A_ROW:
                return Written(records, is_complete=True)
            start += width
        return Written(records, is_complete=False)

    def _derive(
        self, writers: Sequence[Writer], numbers: Iterable[int]
    ) -> dict[str, tuple[Writer, int]]:
        """Return the writer and the number of each guid."""
        return {
            derive_guid(self.uid, self.entry + writer.path, writer.name, number): (
                writer,
                number,
            )
            for number in numbers
            for writer in writers
        }

    async def _list(self, store: str, guids: dict[str, tuple[Writer, int]]) -> list[dict[str, Any]]:
        """Return the records with these guids as the trace shows them."""
        found: list[dict[str, Any]] = []
        for is_deleted in (False, True):
            cursor: str | None = ""
            while cursor is not None:
                input = {
                    "filter": {"guid": {"in": [*guids]}},
                    "deleted": is_deleted,
                    "limit": MAX_GUIDS,
                    "cursor": cursor,
                }
                page = await call_operation(
                    self.request, "records.list", self.uid, input, store, timeout_s=self.timeout_s
                )
                for one in page["items"]:
                    writer = guids[one["guid"]][0]
                    found.append(_describe(one, store, writer, is_deleted=is_deleted))
                cursor = page["next_cursor"]
        return found


def _describe(
    record: dict[str, Any], store: str, writer: Writer, *, is_deleted: bool
) -> dict[str, Any]:
    content = record["content"]
    return {
        "guid": record["guid"],
        "store": store,
        "kind": record["kind"],
        "scope": record["scope"],
        "content": content[:MAX_CHARACTERS],
        "characters": len(content),
        "agent": writer.name,
        "block": writer.block,
        "created_at": record["created_at"],
        "updated_at": record["updated_at"],
        "deleted": is_deleted,
    }
