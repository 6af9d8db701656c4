"""`memrelay erase PIPELINE`: erase records permanently from all of its stores.

The command ends when no file of Memrelay contains their text.
"""

import asyncio
import time
from collections import Counter
from contextlib import suppress
from typing import Annotated, Any

import typer

from memrelay.bus.errors import BusBusy, BusUnavailable, NoAnswer, NoOwner
from memrelay.bus.request import NewCall, Requester
from memrelay.cli.backups.store_files import existing_stores
from memrelay.cli.composition import bus_address, fail, note, run
from memrelay.cli.operation_command import ACTOR, encode_input, send_call
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.pipeline import pipelines_with_stores
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import counted
from memrelay.memory.operations import all_operations
from memrelay.memory.records.deletion import NAME

ERASURES = "records.erasures"
POLL_INTERVAL_S, POLL_TIMEOUT_S, ANSWER_TIMEOUT_S = 0.1, 5.0, 60.0
# Between two lines of progress.
PROGRESS_S = 5.0
COUNTS = ("records", "versions", "replies", "messages", "letters")
Guids = Annotated[
    list[str] | None,
    typer.Option(
        "--guid", metavar="GUID", help="The record with this guid. Repeat the option for several."
    ),
]
Filter = Annotated[
    str,
    typer.Option(
        "--filter", metavar="JSON", help="Records that match this filter; {} matches all."
    ),
]
Text = Annotated[
    str,
    typer.Option(
        metavar="TEXT", help="Records and messages that contain this text, also in earlier states."
    ),
]
Reason = Annotated[
    str,
    typer.Option(
        metavar="TEXT", help="The reason. It is kept, so it must not contain erased text."
    ),
]
Store = Annotated[
    str, typer.Option(metavar="MEMORY_ID", help="A store of the pipeline. All by default.")
]
EraseTimeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0, max=86_400, help="Maximum time to wait for the erasure."
    ),
]


def erase(
    pipeline: Pipeline,
    *,
    guid: Guids = None,
    filter_: Filter = "",
    text: Text = "",
    reason: Reason = "",
    store: Store = "",
    wait: EraseTimeout = 600.0,
    as_json: Json = False,
) -> None:
    """Erase records permanently, with their histories and all messages that quote them.

    Replies and dead letters that quote them are erased too. Only earlier backups and exports still
    contain the text.
    """
    given: dict[str, Any] = {"guids": guid or [], "filter": filter_, "text": text, "reason": reason}
    selection = {name: value for name, value in given.items() if value}
    data = encode_input(all_operations()[NAME], selection)
    total = run(lambda settings: _erase(settings, pipeline, store, data, wait))
    if as_json:
        print_json(dict(total))
        return
    print_line(
        f"erased {counted(total['records'], 'record')}, "
        f"{counted(total['versions'], 'earlier state')}, {counted(total['messages'], 'message')}, "
        f"{total['replies']} stored or pending replies, and "
        f"{counted(total['letters'], 'dead letter')}"
    )


async def _erase(
    settings: Settings, pipeline: str, store: str, data: bytes, wait_s: float
) -> Counter[str]:
    (source,) = await pipelines_with_stores(settings, [pipeline])
    stores = [store] if store else existing_stores(settings, source.stores)
    total, deadline = Counter[str](dict.fromkeys(COUNTS, 0)), time.monotonic() + wait_s
    async with Requester(bus_address(settings)) as requester:
        for name in stores:
            call = NewCall(source.uid, NAME, data, True, name, ACTOR)
            await send_call(requester, call, max(deadline - time.monotonic(), ANSWER_TIMEOUT_S))
            note(
                f"{name}: the records are deleted; the worker now erases messages that quote them, "
                "and rewrites the files"
            )
        for name in stores:
            call = NewCall(source.uid, ERASURES, b'{"limit": 1}', False, name, ACTOR)
            erasure = await _wait_for_end(requester, call, deadline)
            total.update({count: erasure[count] for count in COUNTS})
            if erasure["left_over"]:
                note(f"{name}: {erasure['left_over']}")
    return total


async def _wait_for_end(requester: Requester, call: NewCall, deadline: float) -> dict[str, Any]:
    """Return the last erasure of a store when it has ended. End the command at the deadline.

    While no worker serves the pipeline, as during a restart, it waits for the next one.
    """
    started = reported = time.monotonic()
    while True:
        with suppress(BusUnavailable, BusBusy, NoOwner, NoAnswer):
            answer = await requester.call(call, POLL_TIMEOUT_S)
            items: list[dict[str, Any]] = answer.get("output", {}).get("items", [])
            if items and items[0]["ended_at"] is not None:
                return items[0]
        now = time.monotonic()
        if now - reported >= PROGRESS_S:
            reported = now
            note(f"{call.store}: still erasing after {now - started:.0f} s")
        if now > deadline:
            fail(
                f"the records are erased from {call.store}, but not yet from all messages that "
                "quote them; the worker continues, and records.erasures shows the end. If it does "
                "not end, `memrelay status` and `memrelay doctor` show the reason"
            )
        await asyncio.sleep(POLL_INTERVAL_S)
