"""`memrelay rm PIPELINE`: takes a pipeline out of service."""

from cli.composition import pipeline_named, run, stored_catalog
from cli.deployment import deployments
from cli.options import JsonAnyway, Pipeline
from cli.output import print_json
from cli.settings import Settings


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
