"""`memrelay reindex PIPELINE`: makes the vectors of a pipeline's stores anew, while they are
searched."""

import asyncio
import time

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.reindex import is_reindex_requested, request_reindex
from memrelay.cli.composition import bus_address, pipeline_named, run, stored_catalog
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line

WITHIN_S, LOOK_S = 5.0, 0.1  # how long an owner may take to begin


def reindex(pipeline: Pipeline, *, as_json: Json = False) -> None:
    """Make the vectors of a pipeline anew, by the embedder of the settings: after `embedding.model`
    was changed, or to be sure.

    The old vectors are searched until the new ones are complete; `memrelay status` counts what is
    left.
    """

    async def command(settings: Settings) -> None:
        async with (
            stored_catalog(settings) as catalog,
            ReconnectingConnection(bus_address(settings)) as line,
        ):
            found = await pipeline_named(catalog, pipeline)
            await request_reindex(line, found.uid)
            begun = await _begun(line, found.uid)
        if as_json:
            print_json({"pipeline_uid": found.uid, "name": found.name, "begun": begun})
        elif begun:
            print_line(
                f"the vectors of {found.name} ({found.uid}) are made anew, if it has any; `memrelay status` counts them"
            )
        else:
            print_line(
                f"no worker has begun with {found.name} ({found.uid}) yet; it will, once one serves it with an embedder"
            )

    run(command)


async def _begun(line: ReconnectingConnection, uid: str) -> bool:
    deadline = time.monotonic() + WITHIN_S
    while await is_reindex_requested(line, uid):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(LOOK_S)
    return True
