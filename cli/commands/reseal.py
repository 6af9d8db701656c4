"""`memrelay reseal PIPELINE`: seal all internal values with the first seal key."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, Literal, NamedTuple

import orjson
import typer

from memrelay.bus.request import NewCall, Requester
from memrelay.cli.composition import (
    bus_address,
    fail,
    find_pipeline,
    make_seal_keys,
    note,
    open_catalog,
    run,
)
from memrelay.cli.operation_command import ACTOR, AnswerTimeout
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.interrupts import interruptible
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.memory.errors import MemoryFault, RecordNotFound, VersionConflict
from memrelay.memory.items.internal_entries import InternalEntry, list_internal_entries
from memrelay.memory.memory_id import home_of, store_path
from memrelay.memory.seal_keys import GET, PUT
from memrelay.memory.sealed_text import PREFIX, Place, Sealer, is_sealed
from memrelay.memory.sqlite.copy import FOR_EXPORT, temporary_copy

# Entries that are sealed at the same time.
TOGETHER = 32
# Attempts for an entry that other programs change meanwhile.
MAX_ATTEMPTS = 5
# Failures that are printed, each with its key.
MAX_PRINTED = 20

Outcome = Literal["sealed", "rotated", "current", "gone", "failed"]


class _Resealing(NamedTuple):
    """The pipeline and the parts that reseal its entries."""

    uid: str
    sealer: Sealer
    requester: Requester
    wait_s: float


class _CallRefused(Exception):
    """The owner refused a call. `code` is that of the operation's error."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


def reseal(pipeline: Pipeline, *, wait: AnswerTimeout = 30.0, as_json: Json = False) -> None:
    """Seal all internal values with the first key of memory.seal_keys.

    Values sealed with another key are opened and sealed again; values that are not sealed yet are
    sealed. The pipeline stays in service, and the command can be repeated after an interruption.
    The exit code is 1 if a value could not be sealed. Each value is named.
    """
    counts = run(partial(_reseal, pipeline=pipeline, wait_s=wait))
    if as_json:
        print_json(dict(counts))
    else:
        print_line(
            f"{counts['sealed']} sealed, {counts['rotated']} rotated, {counts['current']} current, "
            f"{counts['gone']} gone, {counts['failed']} failed"
        )
    if counts["failed"]:
        raise typer.Exit(1)


async def _reseal(settings: Settings, *, pipeline: str, wait_s: float) -> Counter[str]:
    """Reseal the entries in a copy of the store, and return the number of each outcome."""
    counts = Counter[str](sealed=0, rotated=0, current=0, gone=0, failed=0)
    async with open_catalog(settings) as catalog:
        uid = (await find_pipeline(catalog, pipeline)).uid
    sealer = await make_seal_keys(settings).load()
    if sealer is None:
        fail("memory.seal_keys is empty; set it to the key that shall seal the values")
    root = settings.memory.root
    store = store_path(root, home_of(uid, "stores"))
    if not store.exists():
        return counts
    async with Requester(bus_address(settings)) as requester:
        parts = _Resealing(uid, sealer, requester, wait_s)
        with interruptible(), temporary_copy(store, root, FOR_EXPORT) as copy:
            entries = list_internal_entries(copy, time.time_ns() // 1_000_000)
            await _reseal_all(parts, entries, counts)
    return counts


async def _reseal_all(
    parts: _Resealing, entries: Iterator[InternalEntry], counts: Counter[str]
) -> None:
    while page := list(islice(entries, TOGETHER)):
        for outcome in await asyncio.gather(*[_try_entry(parts, one, counts) for one in page]):
            counts[outcome] += 1


async def _try_entry(parts: _Resealing, entry: InternalEntry, counts: Counter[str]) -> Outcome:
    """Reseal an entry. Print why it fails."""
    if _is_current(parts.sealer, entry.value):
        return "current"
    try:
        return await _reseal_entry(parts, entry)
    except (_CallRefused, MemoryFault) as error:
        if counts["failed"] < MAX_PRINTED:
            note(f"{entry.key!r} of {entry.owner} in store {entry.store}: {error}")
        return "failed"


async def _reseal_entry(parts: _Resealing, entry: InternalEntry) -> Outcome:
    """Read an entry, and write it back sealed unless another program changed it meanwhile.

    Raises _CallRefused, SealKeyMissing and SealBroken.
    """
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            return await _attempt(parts, entry)
        except _CallRefused as error:
            if error.code == RecordNotFound.code:
                return "gone"
            if error.code != VersionConflict.code or attempt == MAX_ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


async def _attempt(parts: _Resealing, entry: InternalEntry) -> Outcome:
    # The owner acts, and its access comes from the vouched chat, also after the end of a grant.
    address = {"store": entry.store, "namespace": entry.namespace, "key": entry.key}
    given = {"agent": entry.owner, "chat": entry.store, "vouched": ["chat"]} | address
    found = await _call(parts, GET, given | {"owner": entry.owner, "internal": True})
    value = found["value"]
    if found["in_context"] or found["encrypted"]:
        return "gone"
    if _is_current(parts.sealer, value):
        return "current"
    place = Place(parts.uid, entry.store, entry.owner, entry.namespace, entry.key)
    was_sealed = is_sealed(value)
    if was_sealed:
        value = parts.sealer.open(value, place)
    changed = {"value": parts.sealer.seal(value, place), "in_context": False}
    await _call(parts, PUT, given | changed | {"if_version": [found["version"]]})
    return "rotated" if was_sealed else "sealed"


async def _call(parts: _Resealing, op: str, given: dict[str, Any]) -> Any:
    """Return the output of an operation. Raises _CallRefused."""
    call = NewCall(parts.uid, op, orjson.dumps(given), op == PUT, "", ACTOR)
    answer = await parts.requester.call(call, parts.wait_s)
    if "error" in answer:
        raise _CallRefused(answer["error"]["code"], answer["error"]["detail"])
    return answer["output"]


def _is_current(sealer: Sealer, value: object) -> bool:
    return is_sealed(value) and str(value).startswith(f"{PREFIX}{sealer.current_id}.")
