"""Arguments and options that several commands share."""

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from memrelay.bus.streams.entry import LONGEST_ID, is_valid_id
from memrelay.cli.composition import make_catalog
from memrelay.cli.settings import Settings, SettingsError, load_settings
from memrelay.memory.control.catalog import catalog_exists
from memrelay.memory.control.precondition import ANYTHING, Precondition, over
from memrelay.memory.errors import MemoryFault

# A shell reads such a name as one word, without expansion.
PLAIN_WORD = re.compile(r"[\w.][\w.-]*", re.ASCII)


def complete_pipelines(incomplete: str) -> list[str]:
    """Return the active pipelines for shell completion.

    A pipeline whose name is not a plain word, or not unique, is completed by its uid.
    """
    try:
        names = asyncio.run(_pipeline_words(load_settings()))
    except (MemoryFault, OSError, SettingsError):
        # The command itself reports the error.
        return []
    return [name for name in names if name.startswith(incomplete)]


async def _pipeline_words(settings: Settings) -> list[str]:
    if not catalog_exists(settings.memory.root, settings.storage.url):
        # Opening the catalog would create it.
        return []
    async with make_catalog(settings) as catalog:
        active = await catalog.active()
        counts = Counter(one.name for one in active)
        return sorted(
            one.name if PLAIN_WORD.fullmatch(one.name) and counts[one.name] == 1 else one.uid
            for one in active
        )


def validate_idempotency_key(key: str | None) -> str | None:
    """Return the key. Raises BadParameter: if it is empty or not printable."""
    if key == "" or not is_valid_id(key or ""):
        raise typer.BadParameter(f"use 1 to {LONGEST_ID} printable characters, or omit the option")
    return key


def make_precondition(if_match: str | None) -> Precondition:
    """Return the precondition of --if-match: a bundle hash, with or without quotes."""
    return ANYTHING if if_match is None else over(if_match.strip('"'))


def pipeline_argument(help: str) -> Any:
    """Return an argument with the uid or the name of a pipeline, which a shell completes."""
    return typer.Argument(metavar="PIPELINE", help=help, autocompletion=complete_pipelines)


UID_OR_NAME = pipeline_argument("The uid of the pipeline, or its name if the name is unique.")
Pipeline = Annotated[str, UID_OR_NAME]
PipelineOrNone = Annotated[str | None, UID_OR_NAME]
Pipelines = Annotated[
    list[str] | None, pipeline_argument("Uids or names. All pipelines by default.")
]
BundleFile = Annotated[Path, typer.Argument(metavar="FILE", help="A bundle in JSON.")]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="The message.")]
Swarm = Annotated[str, typer.Option(metavar="NAME", help="The swarm that gets the message.")]
User = Annotated[str, typer.Option("--as", metavar="NAME", help="The sender of the message.")]
Wait = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0, max=86_400, help="Maximum time to wait for the results."
    ),
]
IfMatch = Annotated[
    str | None,
    typer.Option(metavar="HASH", help="Change nothing unless the active bundle has this hash."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one value per line.")]
JsonLog = Annotated[bool, typer.Option("--json", help="Log JSON, one event per line (log.format).")]
JsonAnyway = Annotated[
    bool, typer.Option("--json", help="Print JSON, one value per line (the default).")
]
BackedUpPipelines = Annotated[
    list[str] | None,
    typer.Argument(metavar="PIPELINE", help="Uids or names in the backup. Everything by default."),
]
Force = Annotated[
    bool, typer.Option("--force", help="Also replace a working store. The replaced files are kept.")
]
