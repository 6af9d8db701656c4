"""What several commands take: the pipeline, the swarm, the speaker, JSON."""

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from memrelay.bus.streams.entry import LONGEST_ID, may_be_id
from memrelay.cli.settings import Settings, SettingsError, load_settings
from memrelay.memory.control.catalog import Catalog, is_begun
from memrelay.memory.control.precondition import ANYTHING, Precondition, over
from memrelay.memory.errors import MemoryFault

PLAIN = re.compile(r"[\w.][\w.-]*", re.ASCII)  # a shell takes it for one word and nothing else


def known_pipelines(incomplete: str) -> list[str]:
    """The pipelines in service for a shell's completion: names; uids where a name is no plain word,
    or stands for several."""
    try:
        names = asyncio.run(_names(load_settings()))
    except (MemoryFault, OSError, SettingsError):
        return []  # the command itself says why
    return [name for name in names if name.startswith(incomplete)]


async def _names(settings: Settings) -> list[str]:
    if not is_begun(settings.memory.root):
        return []  # which opening it would make
    async with Catalog(settings.memory.root) as catalog:
        active = await catalog.active()
        times = Counter(one.name for one in active)
        return sorted(
            one.name if PLAIN.fullmatch(one.name) and times[one.name] == 1 else one.uid
            for one in active
        )


def own_id(given: str | None) -> str | None:
    """A producer's own id; an empty one made nothing safe to repeat. Raises BadParameter."""
    if given == "" or not may_be_id(given or ""):
        raise typer.BadParameter(f"1 to {LONGEST_ID} printable characters, or leave the option out")
    return given


def expected_by(if_match: str | None) -> Precondition:
    """What must be in service for a change to be made."""
    return ANYTHING if if_match is None else over(if_match.strip('"'))


Pipeline = Annotated[
    str,
    typer.Argument(
        metavar="PIPELINE",
        help="Its uid, or its name where only one has it.",
        show_default=False,
        autocompletion=known_pipelines,
    ),
]
BundleFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A bundle: JSON.", show_default=False)
]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="What to say.", show_default=False)]
Swarm = Annotated[str, typer.Option(metavar="NAME", help="The swarm to say it on.")]
User = Annotated[str, typer.Option("--as", metavar="NAME", help="The name to say it under.")]
Wait = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0, max=86_400, help="How long to wait for the end of the cascade."
    ),
]
IfMatch = Annotated[
    str | None,
    typer.Option(metavar="HASH", help="Only over the bundle with this hash; else nothing changes."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one value a line.")]
JsonLog = Annotated[bool, typer.Option("--json", help="Log JSON, one event a line (log.format).")]
JsonAnyway = Annotated[
    bool, typer.Option("--json", help="Print JSON, one value a line, as without it.")
]
Pipelines = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PIPELINE",
        help="Uids or names; all where none is given.",
        show_default=False,
        autocompletion=known_pipelines,
    ),
]
Named = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PIPELINE", help="Uids or names as the backup has them.", show_default=False
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace a store that works, too; what is replaced is kept.")
]
