"""`memrelay export PIPELINE`: print the active bundle, or the records, of a pipeline."""

import os
import secrets
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO, Annotated, TypeVar

import orjson
import typer

from memrelay.cli.backups.store_files import copied_store, existing_stores
from memrelay.cli.composition import fail, find_pipeline, note, open_catalog, run
from memrelay.cli.options import Pipeline
from memrelay.cli.pipeline import pipelines_with_stores
from memrelay.cli.settings import Settings
from memrelay.cli.terminal import escaped
from memrelay.cli.terminal.interrupts import interruptible
from memrelay.cli.terminal.output import end_unread, print_json, print_line
from memrelay.cli.terminal.readable import counted
from memrelay.memory.engine.disk import fsync_path
from memrelay.memory.engine.memory_id import built_in_store
from memrelay.memory.engine.models import list_formats, load, models
from memrelay.memory.records.export_fields import LineWriter
from memrelay.memory.records.ids import UID, replace_uid
from memrelay.memory.transfer.export import FORMAT, End, Header, Line, export_lines, write_export
from memrelay.pipelines.asyncapi import make_document
from memrelay.pipelines.check import check
from memrelay.pipelines.checked import BundleRefused
from memrelay.pipelines.json_text import MAX_BYTES

Result = TypeVar("Result")
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")
]
OneLine = Annotated[bool, typer.Option("--json", help="Print on one line instead of indented.")]
Records = Annotated[
    bool, typer.Option("--records", help="Export the records as JSON lines instead of the bundle.")
]
Store = Annotated[
    str,
    typer.Option(
        metavar="MEMORY_ID", help="With --records: a store of the pipeline. All by default."
    ),
]


Internal = Annotated[
    bool, typer.Option("--internal", help="With --records: include internal items.")
]


As = Annotated[
    str,
    typer.Option(
        "--as",
        metavar="SYSTEM",
        help="Export for another system: `mcp` writes the knowledge graph as memory.jsonl, `mem0` "
        "the entries of named memories as the JSON of get_all.",
    ),
]


AsyncApi = Annotated[
    bool, typer.Option("--asyncapi", help="Print the AsyncAPI 3.1 document instead of the bundle.")
]


def export(
    pipeline: Pipeline,
    *,
    records: Records = False,
    asyncapi: AsyncApi = False,
    as_: As = "",
    store: Store = "",
    internal: Internal = False,
    output: Output = None,
    as_json: OneLine = False,
) -> None:
    """Print the active bundle of a pipeline. A deploy of the output changes nothing.

    With --asyncapi, print a description of its channels, webhooks, agents and messages.

    With --records, print all records for `memrelay import`, and with --as, memories in the format
    of another system: a consistent snapshot per store. The export blocks no other work.
    """
    if (store or internal) and not records:
        fail(f"{'--store' if store else '--internal'} requires --records")
    formats = list_formats()
    if asyncapi and (records or as_):
        fail("--asyncapi has no records; leave it or the other option out")
    if as_ and (records or as_ not in formats):
        fail(
            "--records is Memrelay's own format; leave it or --as out"
            if records
            else f"unknown system {as_!r} in --as; use {' or '.join(formats)}"
        )

    async def command(settings: Settings) -> None:
        if records:
            with interruptible():
                await export_records(settings, pipeline, store, output, with_internal=internal)
            return
        if as_:
            with interruptible():
                await export_foreign(settings, pipeline, formats[as_], output)
            return
        source = await _bundle_source(settings, pipeline)
        if asyncapi:
            source = _describe_bundle(settings, source)
        if output is None:
            print_json(orjson.loads(source), indent=not as_json)
        else:
            text = _format_bundle(source, as_json)
            write_atomically(output, lambda file: file.write(text))

    run(command)


async def _bundle_source(settings: Settings, pipeline: str) -> bytes:
    async with open_catalog(settings) as catalog:
        deployed = await find_pipeline(catalog, pipeline)
        source = await catalog.source(deployed.hash)
    if source is None:
        fail(
            f"{settings.memory.root / 'system.db'} has lost the bundle of {deployed.name} "
            f"({deployed.uid}); deploy it again with `memrelay deploy FILE`"
        )
    return source


def _describe_bundle(settings: Settings, source: bytes) -> bytes:
    """Return the AsyncAPI document of a bundle."""
    try:
        bundle = check(source).accepted()
    except BundleRefused as error:
        fail(f"this release does not accept the bundle: {error}")
    web = settings.web
    web_url = web.public_url or f"http://{web.host}:{web.port}{web.base_path}"
    return orjson.dumps(make_document(bundle, settings.bus.url or "unix:", web_url))


def _format_bundle(source: bytes, on_one_line: bool) -> bytes:
    """Indent a bundle, unless it then exceeds the size limit of bundles."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    indented = orjson.dumps(orjson.loads(source), option=options)
    return source + b"\n" if on_one_line or len(indented) > MAX_BYTES else indented


async def export_records(
    settings: Settings, pipeline: str, store: str, output: Path | None, *, with_internal: bool
) -> None:
    """Write the records of a pipeline to stdout or a file. End the command for an unknown store."""
    (source,) = await pipelines_with_stores(settings, [pipeline])
    if store and store not in source.stores:
        fail(f"pipeline {source.name} has no store {store!r}; it has {', '.join(source.stores)}")
    names = [store] if store else source.stores
    existing = existing_stores(settings, names)
    now_ms = time.time_ns() // 1_000_000
    header = Header(FORMAT, now_ms, version("memrelay"), source.uid, source.name)
    omitted = list[int]()
    counted_by = None if with_internal else omitted.append
    lines = _exported_stores(settings, source.uid, existing, counted_by)
    with closing(lines) as stores:
        if output is None:
            _print(lambda file: write_export(file, header, stores))
        else:
            end = write_atomically(
                output, lambda file: write_export(file, header, stores), private=True
            )
    if output is not None and output.is_file():
        counts = [counted(end.records, "record"), counted(end.versions, "earlier state")]
        print_line(f"{output}: {', '.join([*counts, *_row_counts(end)])}")
    if total := sum(omitted):
        note(f"{counted(total, 'internal item')} omitted; add --internal to export them too")


async def export_foreign(
    settings: Settings, pipeline: str, format_: tuple[str, str], output: Path | None
) -> None:
    """Write memories of a pipeline to stdout or a file, in a format of `list_formats`."""
    store, write = format_[0], load(format_[1])
    (source,) = await pipelines_with_stores(settings, [pipeline])
    name = built_in_store(source.uid, store)
    existing = existing_stores(settings, [name])
    with closing(_exported_stores(settings, source.uid, existing, lambda _: None)) as stores:
        lines = (line for _, of_store in stores for line in of_store)
        if output is None:
            _print(lambda file: write(file, lines))
            return
        written = write_atomically(output, lambda file: write(file, lines), private=True)
    if output.is_file():
        print_line(f"{output}: {counted(written.total, written.noun)}")


def _print(write: Callable[[LineWriter], object]) -> None:
    try:
        with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as file:
            target = _TerminalFile(file) if file.isatty() else file
            write(target)
    except BrokenPipeError:
        end_unread()


class _TerminalFile:
    """Writes JSON lines to a terminal, with the characters escaped that could control it."""

    def __init__(self, terminal: IO[bytes]) -> None:
        self._terminal = terminal

    def write(self, line: bytes, /) -> int:
        text = line.decode(errors="backslashreplace").removesuffix("\n")
        return self._terminal.write(f"{escaped(text)}\n".encode())


def _row_counts(end: End) -> Iterator[str]:
    """Yield the counts of the models' rows: all of a model that has some, and of each that holds
    records.
    """
    for model in models().values():
        lines = [rows.lines for rows in model.rows if rows.lines and rows.lines.summary]
        has_rows = any(end.count_rows(one.count) for one in lines)
        for one in lines:
            if has_rows or one.holds_records:
                count = end.count_rows(one.count)
                yield one.summary.format(count=count, s="s" * (count != 1))


def _exported_stores(
    settings: Settings, uid: str, names: Iterable[str], on_omitted: Callable[[int], None] | None
) -> Generator[tuple[str, Iterable[Line]], None, None]:
    """Yield the lines of each store. Closing the generator removes the current copy.

    `on_omitted` receives the number of internal items of each store, which are left out. None
    includes them.
    """
    now_ms = time.time_ns() // 1_000_000
    for memory_id in names:
        with copied_store(settings, memory_id) as copy:
            with_internal = on_omitted is None
            lines = export_lines(
                copy, memory_id, now_ms, with_internal=with_internal, on_omitted=on_omitted
            )
            yield replace_uid(memory_id, uid, UID), lines


def write_atomically(
    output: Path, write: Callable[[IO[bytes]], Result], *, private: bool = False
) -> Result:
    """Write a file and return the result of `write`.

    The file appears when it is complete and synced; until then an existing file stays. A pipe or
    device is written directly. `private` sets mode 600. A missing folder ends the command.
    Raises OSError: with the name of the file.
    """
    if not output.resolve().parent.is_dir():
        fail(f"{output.resolve().parent} is not a folder; create it, or use another file")
    with _file_name_in_errors(output):
        if output.exists() and not output.is_file():
            with output.open("wb") as file:
                return write(file)
        return _replace_file(output.resolve(), write, private)


def _replace_file(output: Path, write: Callable[[IO[bytes]], Result], private: bool) -> Result:
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
    fsync_path(output.parent)
    return result


@contextmanager
def _file_name_in_errors(output: Path) -> Iterator[None]:
    """Add the file name to the error of a write, which has none."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(output)) from error
