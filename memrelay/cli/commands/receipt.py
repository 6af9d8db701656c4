"""`memrelay receipt PIPELINE ID`: show what an answer was based on, and prove it."""

import asyncio
import math
from collections.abc import Sequence
from typing import Annotated, Any

import orjson
import typer

from memrelay.bus.errors import BusBusy
from memrelay.bus.request import SNAPSHOT_PENDING, NewCall, Requester
from memrelay.cli.composition import bus_address, fail, find_uid, run
from memrelay.cli.operation_command import ACTOR, AnswerTimeout
from memrelay.cli.options import JsonAnyway, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json
from memrelay.memory.operations import RECEIPT, all_operations

ReceiptId = Annotated[str, typer.Argument(metavar="ID", help="Id of the receipt.")]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify", help="Read again in the state of then and compare. Exit code 1 if it differs."
    ),
]
PAUSE_S = 0.2
# Operations whose `as_of` must be a time.
OF_SEVERAL_STORES = ("documents.search",)
# Scores are 32-bit numbers.
PRECISION = 1e-6
Json = dict[str, Any]


def receipt(
    pipeline: Pipeline,
    id: ReceiptId,
    *,
    verify: Verify = False,
    wait: AnswerTimeout = 60.0,
    as_json: JsonAnyway = False,
) -> None:
    """Show which records an answer was based on, or verify it.

    `--verify` runs the search in the state of then. If the answer differs, it names what has
    changed besides the records, and shows both lists.
    """

    async def command(settings: Settings) -> None:
        uid = await find_uid(settings, pipeline)
        async with Requester(bus_address(settings)) as requester:
            kept = await _call(requester, _make_call(uid, "receipts.get", {"id": id}), wait)
            if not verify:
                print_json(kept["output"])
                return
            verdict = await verify_receipt(requester, uid, kept["output"], wait)
        print_json(verdict)
        if not verdict["verified"]:
            raise typer.Exit(1)

    run(command)


async def verify_receipt(requester: Requester, uid: str, kept: Json, wait_s: float) -> Json:
    """Run the search of a receipt again in the state of then, and return what differs."""
    operation = all_operations().get(kept["operation"])
    if operation is None or not (operation.takes_receipt and operation.takes_as_of):
        fail(f"the receipt is of {kept['operation']}, which cannot run again in an earlier state")
    if operation.name in OF_SEVERAL_STORES:
        fail(
            f"the receipt is of {kept['operation']}, which reads several stores: no change of one "
            "of them has the state of all"
        )
    question = kept["question"]
    if question is None or "digest" in question:
        why = "it was erased" if question is None else "the bundle keeps only digests"
        fail(f"the receipt has no question to ask again: {why}")
    call = NewCall(
        uid,
        operation.name,
        orjson.dumps(question | {RECEIPT: True}),
        False,
        kept["store"] if operation.takes_store else "",
        ACTOR,
        as_of=f"n:{kept['change']}",
    )
    answer = await _call(requester, call, wait_s)
    now = answer[RECEIPT]
    found = [
        {"guid": guid, "version": version, "score": score} for guid, version, score in now["found"]
    ]
    is_same = _is_same(kept["found"], found) and kept["left_out"] == now["left_out"]
    fingerprint = now["fingerprint"]
    changed = {
        name: {"then": kept["fingerprint"].get(name), "now": value}
        for name, value in fingerprint.items()
        if kept["fingerprint"].get(name) != value
    }
    verdict = {"id": kept["id"], "verified": is_same, "changed": changed}
    return verdict if is_same else verdict | {"then": kept["found"], "now": found}


def _is_same(then: Sequence[Json], now: Sequence[Json]) -> bool:
    return len(then) == len(now) and all(
        (one["guid"], one["version"]) == (other["guid"], other["version"])
        and _is_close(one["score"], other["score"])
        for one, other in zip(then, now, strict=True)
    )


def _is_close(then: float | None, now: float | None) -> bool:
    if then is None or now is None:
        return then is now
    return math.isclose(then, now, rel_tol=PRECISION, abs_tol=PRECISION)


def _make_call(uid: str, name: str, given: Json) -> NewCall:
    return NewCall(uid, name, orjson.dumps(given), False, "", ACTOR)


async def _call(requester: Requester, call: NewCall, wait_s: float) -> Json:
    """Return the answer to a call. It waits for the state of an earlier time, and while the
    pipeline is taken over.
    """
    until = asyncio.get_running_loop().time() + wait_s
    while True:
        left_s = max(until - asyncio.get_running_loop().time(), PAUSE_S)
        is_last = left_s <= PAUSE_S
        try:
            answer: Json = await requester.call(call, left_s)
        except BusBusy:
            if is_last:
                raise
        else:
            if "error" not in answer:
                return answer
            if answer["error"]["code"] != SNAPSHOT_PENDING or is_last:
                fail(answer["error"]["detail"])
        await asyncio.sleep(PAUSE_S)
