"""Reads of a past time by memory blocks: deferred calls, because a store is taken back to that time
outside of the transaction. Loaded with the first one.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from memrelay.blocks.async_call import OperationFailed, OperationUnavailable
from memrelay.blocks.contract import Call, DeferredCall, RunningCall
from memrelay.blocks.memory_args import ListingArgs
from memrelay.bus.message import Message
from memrelay.memory.engine.timestamps import parse_ms
from memrelay.memory.records.paging import MOST, too_large
from memrelay.memory.records.reading import Found
from memrelay.memory.records.record import Record

LIST, SEARCH = "records.list", "records.search"
# Bytes of a result besides its records.
MARGIN_BYTES = 4096


def read_past(
    call: Call, args: ListingArgs, name: str, given: Mapping[str, Any], limit: int | None
) -> Message | DeferredCall:
    """Return the deferred call of the operation `name`, LIST or SEARCH, and at its end the answer.

    Without a limit, records that do not fit into a message are left out.
    """
    if limit == 0:
        return args.answer(call, [])
    if call.got is None:
        wanted = {name: value for name, value in given.items() if value is not None}
        wanted["limit"] = MOST if limit is None else min(limit, MOST)
        if args.filter is not None:
            wanted["filter"] = args.filter
        max_bytes = call.limits.message_bytes - MARGIN_BYTES
        return DeferredCall([name, wanted, args.memory_id, args.as_of, max_bytes])
    if call.got.error or "error" in call.got.value:
        return call.error(call.got.error or call.got.value["error"])
    records = [Record(*row) for row in call.got.value["records"]]
    left_out, explanation = call.got.value["left_out"], call.got.value["explanation"]
    if explanation is not None:
        return args.answer(call, records, explanation)
    if limit is None:
        return args.answer_best(call, Found(records, left_out))
    if left_out:
        raise too_large(call.limits.message_bytes)
    return args.answer(call, records)


async def execute(request: Any, deferred_call: RunningCall) -> dict[str, Any]:
    """Return {"records", "left_out", "explanation"} of a past time, or {"error"}."""
    name, given, store, as_of, max_bytes = request
    try:
        found = await deferred_call.operate(name, given, store=store, as_of=as_of)
    except OperationUnavailable:
        raise
    except OperationFailed as error:
        return {"error": str(error)}
    explanation = found.get("explanation")
    rows, size = list[list[Any]](), len(orjson.dumps(explanation))
    for item in found["items"]:
        row = _make_row(item) if name == LIST else _make_row(item["record"], item["score"])
        size += len(orjson.dumps(row)) + 1
        if size > max_bytes:
            break
        rows.append(row)
    there = len(found["items"])
    if name == LIST:
        there = found["total"] - given.get("offset", 0)
    wanted = min(there, given["limit"]) if given["limit"] < MOST else there
    return {"records": rows, "left_out": max(wanted - len(rows), 0), "explanation": explanation}


def _make_row(item: Mapping[str, Any], score: float = 0.0) -> list[Any]:
    """Return the fields of a Record."""
    names = ("guid", "scope", "kind", "content", "source")
    tags, times = orjson.dumps(item["tags"]).decode(), (item["created_at"], item["updated_at"])
    return [*(item[name] for name in names), tags, *map(parse_ms, times), None, score]
