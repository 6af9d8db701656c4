"""`memrelay rm PIPELINE`: takes a pipeline out of service."""

from memrelay.cli.composition import pipeline_named, run, stored_catalog
from memrelay.cli.deployment import deployments
from memrelay.cli.options import JsonAnyway, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json


def rm(pipeline: Pipeline, *, as_json: JsonAnyway = False) -> None:
    """Take a pipeline out of service. Its records and its input stay, and are there again when it
    is deployed with its uid."""

    async def command(settings: Settings) -> None:
        async with stored_catalog(settings) as catalog:
            found = await pipeline_named(catalog, pipeline)
        async with deployments(settings) as service:
            await service.remove(found.uid)
        print_json({"removed": found.uid, "name": found.name})

    run(command)
