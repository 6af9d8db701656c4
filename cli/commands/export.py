"""`memrelay export PIPELINE`: the bundle in service, for a file that deploys as the same; or all
that it remembers."""

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO, Annotated, TypeVar

import orjson
import typer

from memrelay.cli.composition import fail, pipeline_named, run, stored_catalog
from memrelay.cli.options import Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.stored import pipelines_with_stores
from memrelay.cli.terminal.ending import interruptible
from memrelay.cli.terminal.output import end_unread, print_json, print_line
from memrelay.cli.terminal.readable import counted
from memrelay.memory.disk import sync_folder
from memrelay.memory.files.backup import BackedUpPipeline
from memrelay.memory.files.export import FORMAT, UID, End, Header, Line, of_other, write_export
from memrelay.memory.memory_id import path_of
from memrelay.memory.sqlite.copy import FOR_EXPORT, copied
from memrelay.memory.sqlite.transfer import exported
from memrelay.pipelines.json_text import MOST_BYTES

# Files that commands write: there when they are whole and on disk, and what was there before stays
# until then.

Result = TypeVar("Result")


def write_whole(
    output: Path, write: Callable[[IO[bytes]], Result], *, private: bool = False
) -> Result:
    """What `write` answers, which is given the file; a pipe or a device is written into. Ends the
    command without a folder.

    `private`: for this user's eyes alone. Raises OSError, which names the file.
    """
    if not output.resolve().parent.is_dir():
        fail(f"{output.resolve().parent} is no folder; make it, or name another file")
    with _named(output):
        if output.exists() and not output.is_file():
            with output.open("wb") as file:
                return write(file)
        return _beside(output.resolve(), write, private)


def _beside(output: Path, write: Callable[[IO[bytes]], Result], private: bool) -> Result:
    """And then in its place."""
    draft = output.with_name(f".{output.name}.unfinished-{secrets.token_hex(4)}")
    with ExitStack() as undo:
        file = undo.enter_context(draft.open("xb"))
        undo.callback(draft.unlink, missing_ok=True)
        if private:
            draft.chmod(0o600)
        result = write(file)
        file.flush()
        os.fsync(file.fileno())
        draft.replace(output)
    sync_folder(output.parent)
    return result


@contextmanager
def _named(output: Path) -> Iterator[None]:
    """What the system says of a write does not name the file."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(output)) from error


# Writes what a pipeline remembers, from copies of its stores: each as it was at one moment, and
# nobody waits meanwhile.


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


Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there instead.")
]
OneLine = Annotated[bool, typer.Option("--json", help="On one line instead of indented.")]
Records = Annotated[
    bool, typer.Option("--records", help="What it remembers instead of its bundle, as JSON lines.")
]
Store = Annotated[
    str,
    typer.Option(
        metavar="MEMORY_ID",
        help="With --records: one of its stores; by default all.",
        show_default=False,
    ),
]


def export(
    pipeline: Pipeline,
    *,
    records: Records = False,
    store: Store = "",
    output: Output = None,
    as_json: OneLine = False,
) -> None:
    """Print the bundle of a pipeline in service; to deploy it again changes nothing, its hash is
    the same.

    With --records print what it remembers, as it was at one moment, for `memrelay import`. Nobody
    waits for it.
    """
    if store and not records:
        fail("--store goes with --records")

    async def command(settings: Settings) -> None:
        if records:
            with interruptible():
                await export_records(settings, pipeline, store, output)
            return
        async with stored_catalog(settings) as catalog:
            deployed = await pipeline_named(catalog, pipeline)
            source = await catalog.source(deployed.hash)
        if source is None:
            fail(
                f"the bundle of {deployed.name} ({deployed.uid}) is gone from {settings.memory.root / 'system.db'}; "
                "put it in service again with `memrelay deploy FILE`"
            )
        if output is None:
            print_json(orjson.loads(source), indent=not as_json)
        else:
            text = _written(source, as_json)
            write_whole(output, lambda file: file.write(text))

    run(command)


def _written(source: bytes, on_one_line: bool) -> bytes:
    """Indented, unless that makes it larger than a bundle may be."""
    indented = orjson.dumps(
        orjson.loads(source), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    )
    return source + b"\n" if on_one_line or len(indented) > MOST_BYTES else indented
