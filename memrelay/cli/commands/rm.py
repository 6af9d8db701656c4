"""`memrelay rm PIPELINE`: deactivate a pipeline."""

from memrelay.cli.composition import find_pipeline, open_catalog, run
from memrelay.cli.deployment import deployments
from memrelay.cli.options import JsonAnyway, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json


def rm(pipeline: Pipeline, *, as_json: JsonAnyway = False) -> None:
    """Deactivate a pipeline. Its records and input are kept for a later deploy with its uid."""

    async def command(settings: Settings) -> None:
        async with open_catalog(settings) as catalog:
            deployed = await find_pipeline(catalog, pipeline)
        async with deployments(settings) as service:
            await service.remove(deployed.uid)
        print_json({"removed": deployed.uid, "name": deployed.name})

    run(command)
