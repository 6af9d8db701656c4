"""`memrelay ls`: list the active pipelines."""

from memrelay.cli.composition import open_catalog, run
from memrelay.cli.options import Json
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.readable import moment, print_list


def ls(*, as_json: Json = False) -> None:
    """List the active pipelines: a table on a terminal, otherwise JSON lines."""

    async def command(settings: Settings) -> None:
        async with open_catalog(settings) as catalog:
            active = await catalog.active()
        items = [
            {
                "pipeline_uid": one.uid,
                "name": one.name,
                "hash": one.hash,
                "version": one.version,
                "deployed_at": one.deployed_at,
            }
            for one in active
        ]
        rows = [(one.name, one.uid, str(one.version), moment(one.deployed_at)) for one in active]
        heading = "NAME", "UID", "VERSION", "DEPLOYED"
        nothing = "No pipeline is active; deploy one with `memrelay deploy FILE`."
        print_list(items, [heading, *rows], nothing, as_json=as_json)

    run(command)
