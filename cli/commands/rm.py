"""`memrelay rm PIPELINE`: takes a pipeline out of service."""
from cli.composition import pipeline_named, print_json, run
from cli.deployment import announce
from cli.settings import Settings
from memory.catalog import Catalog


def rm(pipeline: str) -> None:
    """Take a pipeline out of service. Its records and its input stay, and are there again when it is deployed with its uid."""
    async def command(settings: Settings) -> None:
        async with Catalog(settings.memory.root) as catalog:
            found = await pipeline_named(catalog, pipeline)
            await catalog.remove(found.uid)
        await announce(settings)
        print_json({"removed": found.uid, "name": found.name})

    run(command)
