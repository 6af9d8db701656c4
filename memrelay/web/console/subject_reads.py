"""Reads everything about a user, an agent or a thread from the stores of a pipeline, for its page.

A timeline joins the records of several stores, the newest first. Its cursor has one part per store:
the cursor of the store, "" for its beginning, or END.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from aiohttp import web

from memrelay.memory.engine.memory_id import built_in_store
from memrelay.memory.records.ids import derive_guid, input_of_guid
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import get_caller
from memrelay.web.console.agents import list_record_stores
from memrelay.web.console.calls import Answer, Call, ask, ask_refusable
from memrelay.web.console.receipt_reads import as_entry
from memrelay.web.console.record_reads import PATHS
from memrelay.web.console.search_hits import record_url
from memrelay.web.server.errors import NotFound, Unprocessable

Json = dict[str, Any]
PAGE_SIZE = 50
# Stores of a pipeline that are read, in the order of its agents.
MOST_STORES = 8
END = "-"
# Receipts in which the records of a page are looked for, and that are shown of one record.
MAX_RECEIPTS, SHOWN_RECEIPTS = 200, 5
MAX_ITEMS, MAX_VIEW_RECORDS = 50, 10
# Records of one agent and message that are recognized.
MAX_NUMBERS = 4


@dataclass(frozen=True, slots=True)
class SubjectName:
    """A subject in a pipeline. `sort` is one of user, agent and thread."""

    uid: str
    sort: str
    name: str


@dataclass(frozen=True, slots=True)
class StorePart:
    """Records of a subject in a store. `cursors` has the cursor after each record, the last one END
    at the end of the timeline; `start` is the cursor before them, or after them if there are none.
    """

    store: str
    start: str
    records: tuple[Json, ...] = ()
    cursors: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class StoreHead:
    """The numbers of a subject's records in a store by kind, and the views that have it."""

    store: str
    kinds: dict[str, int] = field(default_factory=dict)
    first_at: str = ""
    last_at: str = ""
    is_whole: bool = True
    views: tuple[Json, ...] = ()
    user: Json | None = None
    fault: str = ""

    @property
    def count(self) -> int:
        """The number of records of all kinds."""
        return sum(self.kinds.values())


class Shown(NamedTuple):
    """A record of a timeline with its links. `entry` is the message that led to it, or ""."""

    record: Json
    store: str
    url: str
    entry: str
    receipts: list[Json]


@dataclass(frozen=True, slots=True)
class Timeline:
    """A page of records by day, and the cursor of the next page, "" for none."""

    days: list[tuple[str, list[Shown]]]
    next_cursor: str
    faults: list[str]


def list_subject_stores(served: Served) -> list[str]:
    """Return the stores whose records are read."""
    return list_record_stores(served)[:MOST_STORES]


async def read_timeline(
    request: web.Request, served: Served, subject: SubjectName, kind: str, cursor: str
) -> Timeline:
    """Return a page of the records of a subject in all stores."""
    stores = list_subject_stores(served)
    given = cursor.split(".") if cursor else [""] * len(stores)
    if len(given) != len(stores):
        raise Unprocessable("The cursor is invalid; open the first page of the timeline.")
    reads = (
        _read_part(request, subject, StorePart(store, at), kind)
        for store, at in zip(stores, given, strict=True)
    )
    parts, receipts = await asyncio.gather(asyncio.gather(*reads), _read_receipts(request, subject))
    records, ends = join_parts(parts)
    shown = [_show(served, store, record, receipts) for store, record in records]
    days = [(day, list(some)) for day, some in groupby(shown, _day_of)]
    is_last = all(end == END for end in ends)
    faults = [
        f"{shorten_store(subject.uid, part.store)}: {part.fault}" for part in parts if part.fault
    ]
    return Timeline(days, "" if is_last else ".".join(ends), faults)


def shorten_store(uid: str, store: str) -> str:
    """Return the name of a store as pages show it."""
    return store.removeprefix(f"instances/{uid}/")


def _day_of(shown: Shown) -> str:
    return str(shown.record["created_at"])[:10]


async def _read_part(
    request: web.Request, subject: SubjectName, part: StorePart, kind: str
) -> StorePart:
    """Return the next records of a store."""
    if part.start == END:
        return part
    given = {"name": subject.name, "sort": subject.sort, "kind": kind, "limit": PAGE_SIZE}
    call = Call("records.timeline", given | {"cursor": part.start}, part.store)
    (answer,) = await ask(request, subject.uid, call)
    if answer.output is None:
        return replace(part, fault=answer.fault)
    items, last = answer.output["items"], answer.output["next_cursor"] or END
    if not items:
        return replace(part, start=last)
    records = tuple(one["record"] for one in items)
    return replace(part, records=records, cursors=(*(one["cursor"] for one in items[:-1]), last))


def join_parts(parts: Sequence[StorePart]) -> tuple[list[tuple[str, Json]], list[str]]:
    """Return (store and record of a page, the newest first; the cursor of each store after it).

    The page ends where a store may have further records that are newer than those of the others.
    """
    taken: list[tuple[str, Json]] = []
    counts = [0] * len(parts)
    while len(taken) < PAGE_SIZE:
        waiting = [at for at, part in enumerate(parts) if counts[at] < len(part.records)]
        if not waiting or any(map(_is_used_up, parts, counts)):
            break
        newest = max(waiting, key=lambda at: str(parts[at].records[counts[at]]["created_at"]))
        taken.append((parts[newest].store, parts[newest].records[counts[newest]]))
        counts[newest] += 1
    ends = [
        part.cursors[count - 1] if count else part.start
        for part, count in zip(parts, counts, strict=True)
    ]
    return taken, ends


def _is_used_up(part: StorePart, count: int) -> bool:
    """Return whether all records of a part are taken, and its store has more."""
    return 0 < count == len(part.records) and part.cursors[-1] != END


def _show(served: Served, store: str, record: Json, receipts: dict[str, list[Json]]) -> Shown:
    uid, guid = served.deployed.uid, record["guid"]
    agents = tuple(
        agent.agent.alias
        for agent in served.bundle.agents
        if record["source"] in (agent.agent.alias, agent.agent.name)
    )
    url = record_url(uid, store, guid)
    return Shown(record, store, url, _find_entry(uid, guid, agents), receipts.get(guid, []))


@lru_cache(4096)
def _find_entry(uid: str, guid: str, agents: tuple[str, ...]) -> str:
    """Return the message from which one of these agents wrote a record, "" if none did."""
    entry = input_of_guid(guid) if agents else ""
    is_written = bool(entry) and any(
        derive_guid(uid, entry + path, agent, number) == guid
        for path in PATHS
        for agent in agents
        for number in range(1, MAX_NUMBERS + 1)
    )
    return entry if is_written else ""


async def _read_receipts(request: web.Request, subject: SubjectName) -> dict[str, list[Json]]:
    """Return the newest receipts by the guid of a record that they found, for administrators."""
    if "admin" not in get_caller(request).scopes:
        return {}
    (answer,) = await ask(request, subject.uid, Call("receipts.list", {"limit": MAX_RECEIPTS}))
    by_guid: dict[str, list[Json]] = {}
    for receipt in answer.output["items"] if answer.output else ():
        shown = {
            "at": receipt["at"],
            "agent": receipt["agent"] or receipt["actor"],
            "entry": as_entry(receipt["message"]),
        }
        for one in receipt["found"]:
            receipts = by_guid.setdefault(one["guid"], [])
            if len(receipts) < SHOWN_RECEIPTS:
                receipts.append(shown)
    return by_guid


async def read_heads(request: web.Request, served: Served, subject: SubjectName) -> list[StoreHead]:
    """Return what each store counts of a subject, with its views and, for a user, its record."""
    stores = list_subject_stores(served)
    return list(await asyncio.gather(*(_read_head(request, subject, one) for one in stores)))


async def _read_head(request: web.Request, subject: SubjectName, store: str) -> StoreHead:
    given = {"name": subject.name, "sort": subject.sort, "limit": 1}
    timeline, views, user = await asyncio.gather(
        ask_refusable(request, subject.uid, Call("records.timeline", given, store)),
        ask_refusable(
            request,
            subject.uid,
            Call("views.about", {"of": subject.name, "limit": MAX_VIEW_RECORDS}, store),
        ),
        _read_user(request, subject, store),
    )
    if timeline.output is None:
        return StoreHead(store, fault=timeline.fault)
    found = timeline.output
    return StoreHead(
        store,
        {one["kind"]: one["records"] for one in found["kinds"]},
        found["first_at"] or "",
        found["last_at"] or "",
        found["is_whole"],
        tuple(views.output["views"]) if views.output else (),
        user.output,
    )


async def _read_user(request: web.Request, subject: SubjectName, store: str) -> Answer:
    if subject.sort != "user":
        return Answer(None)
    call = Call("users.get", {"id": subject.name[:240]}, store)
    return await ask_refusable(request, subject.uid, call, NotFound)


async def read_item_keys(request: web.Request, subject: SubjectName) -> list[str]:
    """Return the first keys of the items in an agent's own store."""
    given = {"agent": subject.name, "store": subject.name, "limit": MAX_ITEMS}
    call = Call("items.list", given, built_in_store(subject.uid, "stores"))
    answer = await ask_refusable(request, subject.uid, call)
    return list(answer.output["keys"]) if answer.output else []


def add_kinds(heads: Iterable[StoreHead]) -> dict[str, int]:
    """Return the numbers of records by kind in all stores."""
    counts: dict[str, int] = {}
    for head in heads:
        for kind, count in head.kinds.items():
            counts[kind] = counts.get(kind, 0) + count
    return dict(sorted(counts.items()))
