"""Copies of stores as they were at a time, and the inputs that they keep from then on."""

import heapq
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from memrelay.memory.engine.as_of import PastStates, take_back
from memrelay.memory.engine.copy import copy_database
from memrelay.memory.engine.disk import make_folder
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.models import list_rows
from memrelay.memory.engine.snapshots import release_copy
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.models.inputs.packing import KeptInput
from memrelay.memory.models.inputs.table import InputTable, owner_of
from memrelay.rehearsal.setup import CANDIDATE, MAX_INPUTS, MAX_RESULT_BYTES, THEN

# Inputs that ran after T are not known by their keys, and no message waits.
FORGET = ("DELETE FROM idempotency_keys WHERE done_at >= ?", "DELETE FROM flow_keys WHERE ? >= 0")
# Tables without a history whose new rows are known.
DATED = "SELECT name FROM pragma_table_info(?) WHERE name = 'created_at'"


class Copied(NamedTuple):
    """The inputs to run, the results of their deferred calls, and the number of records whose state
    then is lost.
    """

    since_ms: int
    inputs: list[KeptInput]
    results: list[KeptInput]
    incomplete: int


def copy_stores(
    root: Path, folder: Path, uid: str, names: Sequence[str], period: tuple[int | None, int]
) -> Copied:
    """Copy the stores of a pipeline into a folder, one set for each side, as they were at the
    beginning of `period` (Unix ms). Without one, it begins with the first kept input.

    Raises StoreBusy, StoreBroken, and Refused: the state of then is no longer known, or there are
    too many inputs.
    """
    existing = [name for name in names if store_path(root, name).exists()]
    (folder / THEN).mkdir()
    for name in existing:
        _copy(store_path(root, name), folder / THEN, name)
    since_ms, until_ms = period
    bounds, read = _Bounds(), (since_ms or 0, until_ms)
    kept = [list(_read_kept(folder / THEN, name, uid, read, bounds)) for name in existing]
    runs = [[one for one in run if one.result is None] for run in kept]
    inputs = list(heapq.merge(*runs, key=lambda one: (one.ms, one.number)))
    ids = {one.id for one in inputs}
    results = [one for run in kept for one in run if one.result is not None and one.id in ids]
    if since_ms is None:
        since_ms = min((one.ms for one in inputs), default=until_ms)
    incomplete = sum(_take_back(folder / THEN, name, since_ms) for name in existing)
    shutil.copytree(folder / THEN, folder / CANDIDATE)
    return Copied(since_ms, inputs, results, incomplete)


def _copy(source: Path, folder: Path, name: str) -> None:
    target = store_path(folder, name)
    make_folder(target.parent)
    copy_database(source, target)
    release_copy(target)


def _read_kept(
    folder: Path, name: str, uid: str, period: tuple[int, int], bounds: "_Bounds"
) -> Iterator[KeptInput]:
    """Yield the inputs of the pipeline that a store keeps, in the order in which they ran, and the
    results of their deferred calls.

    An input that arrived before the period and ran behind one of it belongs to the period.
    """
    with closing(Store(name, store_path(folder, name))) as store:
        has_begun = False
        for one in _scan(store.table(InputTable), period):
            has_begun |= one.ms >= period[0]
            if has_begun and one.ms < period[1] and (one.uid or owner_of(name)) == uid:
                bounds.count(one)
                yield one


class _Bounds:
    """Counts what a rehearsal reads."""

    def __init__(self) -> None:
        self._inputs = self._result_bytes = 0

    def count(self, kept: KeptInput) -> None:
        """Raise Refused if there are too many inputs, or bytes of results."""
        excess = ""
        if kept.result is None:
            self._inputs += 1
            if self._inputs > MAX_INPUTS:
                excess = f"more than {MAX_INPUTS} inputs"
        else:
            self._result_bytes += len(kept.result.data)
            if self._result_bytes > MAX_RESULT_BYTES:
                excess = f"results of requests with more than {MAX_RESULT_BYTES >> 20} MiB"
        if excess:
            raise Refused(f"the period has {excess}, which is the most of a rehearsal: shorten it")


def _scan(table: InputTable, period: tuple[int, int]) -> Iterator[KeptInput]:
    first: int | None = 0
    while first is not None:
        for _, kept in table.rows_with_results(first, *period):
            yield from kept
        first = table.find_next(first)


def _take_back(folder: Path, name: str, since_ms: int) -> int:
    """Take a copy back to its state before a time. Return the number of records that are lost."""
    with closing(Store(name, store_path(folder, name))) as store:
        store.connection.pragma("synchronous", "OFF")
        state = store.table(PastStates).find(str(since_ms - 1))
        lost = take_back(store, state.change)
        with store.transaction() as tx:
            for sql in (*FORGET, *_forget_rows(tx)):
                tx.connection.execute(sql, (since_ms,))
        store.checkpoint()
        return lost


def _forget_rows(store: Store) -> list[str]:
    """Return SQL that deletes the rows of a time and later which have no history."""
    tables = [rows.table for rows in list_rows()]
    dated = [table for table in tables if store.connection.execute(DATED, (table,)).get]
    return [f"DELETE FROM {table} WHERE created_at >= ?" for table in dated]
