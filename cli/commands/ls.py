"""`memrelay ls`: the pipelines in service."""
from cli.composition import print_json, run
from cli.settings import Settings
from memory.catalog import Catalog


def ls() -> None:
    """List the pipelines in service, a JSON line each."""
    async def command(settings: Settings) -> None:
        async with Catalog(settings.memory.root) as catalog:
            for one in await catalog.active():
                print_json({"pipeline_uid": one.uid, "name": one.name, "hash": one.hash, "version": one.version,
                            "deployed_at": one.deployed_at})

    run(command)
