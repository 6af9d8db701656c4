"""Writes what a pipeline remembers, from copies of its stores: each as it was at one moment, and
nobody waits meanwhile."""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

from cli.composition import fail
from cli.output import end_unread, print_line
from cli.readable import counted
from cli.settings import Settings
from cli.stored import pipelines_with_stores
from cli.written import write_whole
from memory.backup import BackedUpPipeline
from memory.export_file import FORMAT, End, Header, write_export
from memory.exported import UID, Line, of_other
from memory.memory_id import path_of
from memory.sqlite.copy import FOR_EXPORT, copied
from memory.sqlite.exports import exported


async def export_records(
    settings: Settings, pipeline: str, store: str, output: Path | None
) -> None:
    """To stdout, or to a file, which is there when it is whole and on disk; a pipe or a device is
    written into.

    Ends the command where there is no such store.
    """
    (found,) = await pipelines_with_stores(settings, [pipeline])
    if store and store not in found.stores:
        fail(f"pipeline {found.name} has no store {store!r}; it has {', '.join(found.stores)}")
    names = [
        name
        for name in ([store] if store else found.stores)
        if path_of(settings.memory.root, name).exists()
    ]
    stores = _stores(settings.memory.root, found.uid, names)
    if output is None:
        _print(_header(found), stores)
        return
    end = write_whole(output, lambda file: write_export(file, _header(found), stores), private=True)
    if output.is_file():
        _tell(output, end)


def _print(header: Header, stores: Iterator[tuple[str, Iterable[Line]]]) -> None:
    try:
        with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as file:
            write_export(file, header, stores)
    except BrokenPipeError:
        end_unread()


def _header(found: BackedUpPipeline) -> Header:
    return Header(FORMAT, time.time_ns() // 1_000_000, version("memrelay"), found.uid, found.name)


def _tell(output: Path, end: End) -> None:
    print_line(
        f"{output}: {counted(end.records, 'record')}, {counted(end.versions, 'earlier state')}, "
        f"{end.memories} named memories"
    )


def _stores(root: Path, uid: str, names: Iterable[str]) -> Iterator[tuple[str, Iterable[Line]]]:
    now_ms = time.time_ns() // 1_000_000
    for memory_id in names:
        with copied(path_of(root, memory_id), root, FOR_EXPORT) as copy:
            yield of_other(memory_id, uid, UID), exported(copy, memory_id, now_ms)
