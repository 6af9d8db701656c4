"""`memrelay reindex PIPELINE`: recompute the vectors of the stores of a pipeline."""

import asyncio
import time

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.reindex import is_reindex_requested, request_reindex
from memrelay.cli.composition import bus_address, find_pipeline, open_catalog, run
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line

# How long the command waits for the owner to begin.
START_TIMEOUT_S, POLL_INTERVAL_S = 5.0, 0.1


def reindex(pipeline: Pipeline, *, as_json: Json = False) -> None:
    """Recompute the vectors of a pipeline, for example after a change of `embedding.model`.

    Searches use the old vectors until the new ones are complete. `memrelay status` counts the
    remaining ones.
    """

    async def command(settings: Settings) -> None:
        async with (
            open_catalog(settings) as catalog,
            ReconnectingConnection(bus_address(settings)) as connection,
        ):
            deployed = await find_pipeline(catalog, pipeline)
            await request_reindex(connection, deployed.uid)
            has_begun = await _has_begun(connection, deployed.uid)
        if as_json:
            print_json({"pipeline_uid": deployed.uid, "name": deployed.name, "begun": has_begun})
        elif has_begun:
            print_line(
                f"recomputing the vectors of {deployed.name} ({deployed.uid}), if it has any; "
                "`memrelay status` counts the remaining ones"
            )
        else:
            print_line(
                f"no worker has begun with {deployed.name} ({deployed.uid}) yet; it begins when a "
                "worker with an embedder serves the pipeline"
            )

    run(command)


async def _has_begun(connection: ReconnectingConnection, uid: str) -> bool:
    deadline = time.monotonic() + START_TIMEOUT_S
    while await is_reindex_requested(connection, uid):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(POLL_INTERVAL_S)
    return True
