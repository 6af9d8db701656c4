"""`memrelay reseal PIPELINE`: seal all internal values with the first seal key."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson
import typer

from memrelay.bus.request import NewCall, Requester
from memrelay.cli.backups.store_files import copied_store, existing_stores
from memrelay.cli.composition import bus_address, fail, find_uid, make_seal_keys, note, run
from memrelay.cli.operation_command import ACTOR, AnswerTimeout
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.interrupts import interruptible
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.memory.engine.memory_id import built_in_store
from memrelay.memory.errors import MemoryFault, RecordNotFound, VersionConflict
from memrelay.memory.models.shared_stores.seals import PREFIX, SealAddress, Sealer
from memrelay.memory.models.shared_stores.table import InternalEntry, list_internal_entries
from memrelay.memory.seal_keys import is_sealed

RESEAL = "items.reseal"
# Entries that are sealed at the same time.
TOGETHER = 32
# Copies that are read because other programs change entries meanwhile.
MAX_ATTEMPTS = 5
# Failures that are printed, each with its key.
MAX_PRINTED = 20

Outcome = Literal["sealed", "rotated", "current", "gone", "changed", "failed"]


class _Resealing(NamedTuple):
    """The pipeline and the parts that reseal its entries."""

    uid: str
    sealer: Sealer
    requester: Requester
    wait_s: float


class _Round(NamedTuple):
    """How many entries of a copy were seen, and which other programs had changed."""

    seen: int
    changed: set[SealAddress]


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
    """Reseal the entries of a pipeline, and return the number of each outcome."""
    counts = Counter[str](sealed=0, rotated=0, current=0, gone=0, failed=0)
    uid = await find_uid(settings, pipeline)
    sealer = await make_seal_keys(settings).load()
    if sealer is None:
        fail("memory.seal_keys is empty; set it to the key that shall seal the values")
    store = built_in_store(uid, "stores")
    if not existing_stores(settings, [store]):
        return counts
    async with Requester(bus_address(settings)) as requester:
        await _reseal_store(_Resealing(uid, sealer, requester, wait_s), store, settings, counts)
    return counts


async def _reseal_store(
    parts: _Resealing, store: str, settings: Settings, counts: Counter[str]
) -> None:
    """Reseal the entries in copies of the store, until no other program changes them meanwhile."""
    remaining: set[SealAddress] | None = None
    for attempt in range(1, MAX_ATTEMPTS + 1):
        with interruptible(), copied_store(settings, store) as copy:
            entries = _list_entries(copy, parts.uid, remaining)
            round_ = await _reseal_all(parts, entries, counts, is_last=attempt == MAX_ATTEMPTS)
        # Entries that are no longer in the copy.
        counts["gone"] += 0 if remaining is None else len(remaining) - round_.seen
        remaining = round_.changed
        if not remaining:
            return


def _list_entries(
    copy: Path, uid: str, remaining: set[SealAddress] | None
) -> Iterator[tuple[InternalEntry, SealAddress]]:
    """Yield the internal entries in a copy, with their addresses. None stands for all."""
    for entry in list_internal_entries(copy, time.time_ns() // 1_000_000):
        address = SealAddress(uid, entry.store, entry.owner, entry.namespace, entry.key)
        if remaining is None or address in remaining:
            yield entry, address


async def _reseal_all(
    parts: _Resealing,
    entries: Iterator[tuple[InternalEntry, SealAddress]],
    counts: Counter[str],
    *,
    is_last: bool,
) -> _Round:
    """Reseal the entries of a copy. Those that other programs changed meanwhile remain to do."""
    seen, changed = 0, set[SealAddress]()
    while page := list(islice(entries, TOGETHER)):
        seen += len(page)
        outcomes = await asyncio.gather(*[_try_entry(parts, *one, counts) for one in page])
        for (_, address), outcome in zip(page, outcomes, strict=True):
            if outcome != "changed" or is_last:
                counts["failed" if outcome == "changed" else outcome] += 1
            else:
                changed.add(address)
    return _Round(seen, changed)


async def _try_entry(
    parts: _Resealing, entry: InternalEntry, address: SealAddress, counts: Counter[str]
) -> Outcome:
    """Reseal an entry. Print why it fails."""
    is_current = str(entry.value).startswith(f"{PREFIX}{parts.sealer.current_id}.")
    if is_sealed(entry.value) and is_current:
        return "current"
    try:
        return await _reseal_entry(parts, entry, address)
    except (_CallRefused, MemoryFault) as error:
        if counts["failed"] < MAX_PRINTED:
            note(f"{entry.key!r} of {entry.owner} in store {entry.store}: {error}")
        return "failed"


async def _reseal_entry(parts: _Resealing, entry: InternalEntry, address: SealAddress) -> Outcome:
    """Write an entry back sealed, unless another program has changed it since the copy.

    Raises _CallRefused, SealKeyMissing, SealBroken and ValueTooLarge.
    """
    value, was_sealed = entry.value, is_sealed(entry.value)
    if was_sealed:
        value = parts.sealer.open(value, address)
    fields = {"store": entry.store, "namespace": entry.namespace, "key": entry.key}
    fields |= {"owner": entry.owner, "value": parts.sealer.seal(value, address)}
    try:
        await _call(parts, fields | {"if_version": [entry.version]})
    except _CallRefused as error:
        if error.code == RecordNotFound.code:
            return "gone"
        if error.code == VersionConflict.code:
            return "changed"
        raise
    return "rotated" if was_sealed else "sealed"


async def _call(parts: _Resealing, fields: dict[str, Any]) -> None:
    """Replace the value of an entry. Raises _CallRefused."""
    call = NewCall(parts.uid, RESEAL, orjson.dumps(fields), True, "", ACTOR)
    answer = await parts.requester.call(call, parts.wait_s)
    if "error" in answer:
        raise _CallRefused(answer["error"]["code"], answer["error"]["detail"])
