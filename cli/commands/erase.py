"""`memrelay erase PIPELINE`: takes records away for good, from all of its stores, and says when
they are gone everywhere."""

import asyncio
import time
from collections import Counter
from typing import Annotated, Any

import typer

from memrelay.bus.request import NewCall, Requester
from memrelay.cli.composition import bus_address, fail, note, run
from memrelay.cli.operation_command import checked
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.stored import pipelines_with_stores
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import counted
from memrelay.memory.memory_id import path_of
from memrelay.memory.operation import all_operations
from memrelay.memory.operations.records_erase import NAME

ACTOR, TOLD = "cli", "records.erasures"
LOOK_S, ANSWER_S = 0.1, 60.0
COUNTS = ("records", "versions", "replies", "messages", "letters")
Guids = Annotated[
    list[str] | None,
    typer.Option(
        "--guid",
        metavar="GUID",
        show_default=False,
        help="A record by its id. Several times for several.",
    ),
]
Passing = Annotated[
    str,
    typer.Option(
        "--filter",
        metavar="JSON",
        help="Records that pass this filter; {} is all.",
        show_default=False,
    ),
]
Text = Annotated[
    str,
    typer.Option(
        metavar="TEXT",
        help="Records that have this text in any state, and messages that have it.",
        show_default=False,
    ),
]
Reason = Annotated[
    str,
    typer.Option(
        metavar="TEXT",
        help="Why; kept, so say nothing in it that is to be erased.",
        show_default=False,
    ),
]
Store = Annotated[
    str,
    typer.Option(
        metavar="MEMORY_ID", help="One of its stores; by default all.", show_default=False
    ),
]
Within = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=0, max=86_400, help="How long to wait until it is gone."),
]


def erase(
    pipeline: Pipeline,
    *,
    guid: Guids = None,
    filter_: Passing = "",
    text: Text = "",
    reason: Reason = "",
    store: Store = "",
    wait: Within = 600.0,
    as_json: Json = False,
) -> None:
    """Erase records for good: with their histories, and with the messages, replies and dead letters
    that quote them.

    Nothing brings them back but a backup or an export that was made before. Afterwards no file of
    Memrelay has their text.
    """
    given: dict[str, Any] = {"guids": guid or [], "filter": filter_, "text": text, "reason": reason}
    data = checked(all_operations()[NAME], {name: value for name, value in given.items() if value})
    total = run(lambda settings: _erase(settings, pipeline, store, data, wait))
    if as_json:
        print_json(dict(total))
        return
    print_line(
        f"erased: {counted(total['records'], 'record')}, {counted(total['versions'], 'earlier state')}; "
        f"with them {counted(total['messages'], 'message')}, {total['replies']} that were kept or waited, and "
        f"{counted(total['letters'], 'dead letter')}"
    )


async def _erase(
    settings: Settings, pipeline: str, store: str, data: bytes, wait_s: float
) -> Counter[str]:
    (found,) = await pipelines_with_stores(settings, [pipeline])
    names = (
        [store]
        if store
        else [name for name in found.stores if path_of(settings.memory.root, name).exists()]
    )
    total, deadline = Counter[str](dict.fromkeys(COUNTS, 0)), time.monotonic() + wait_s
    async with Requester(bus_address(settings)) as requester:
        for name in names:
            await _answer(requester, NewCall(found.uid, NAME, data, True, name, ACTOR))
        for name in names:
            told = await _ended(
                requester, NewCall(found.uid, TOLD, b'{"limit": 1}', False, name, ACTOR), deadline
            )
            total.update({count: told[count] for count in COUNTS})
            if told["left_over"]:
                note(f"{name}: {told['left_over']}")
    return total


async def _ended(requester: Requester, call: NewCall, deadline: float) -> dict[str, Any]:
    """What became of the last erasure of a store. Ends the command where it takes too long."""
    while True:
        told: dict[str, Any] = (await _answer(requester, call))["items"][0]
        if told["ended_at"] is not None:
            return told
        if time.monotonic() > deadline:
            fail(
                f"the records are erased from {call.store}, but not yet from all that quotes them; the worker goes on "
                "(what keeps it stands in its log as `erasing_put_off`; `memrelay doctor` looks for full disks), and "
                "records.erasures tells when it is done"
            )
        await asyncio.sleep(LOOK_S)


async def _answer(requester: Requester, call: NewCall) -> Any:
    answer = await requester.call(call, ANSWER_S)
    if "error" in answer:
        fail(answer["error"]["detail"])
    return answer["output"]
