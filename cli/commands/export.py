"""`memrelay export PIPELINE`: the bundle in service, for a file that deploys as the same; or all
that it remembers."""

from pathlib import Path
from typing import Annotated

import orjson
import typer

from cli.composition import fail, pipeline_named, run, stored_catalog
from cli.ending import interruptible
from cli.exporting import export_records
from cli.options import Pipeline
from cli.output import print_json
from cli.settings import Settings
from cli.written import write_whole
from pipelines.json_text import MOST_BYTES

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
