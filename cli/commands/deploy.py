"""`memrelay deploy FILE`: checks a bundle and puts it in service."""
from typing import Annotated

import typer

from cli.composition import run
from cli.deployment import deploy as put_in_service
from cli.deployment import read_bundle
from cli.options import BundleFile, JsonAnyway
from cli.output import print_json
from cli.settings import Settings

Uid = Annotated[str | None, typer.Option(metavar="UID", help="Deploy as this pipeline; without, the bundle's pipeline_uid, "
                                                             "else a new one.")]


def deploy(file: BundleFile, *, uid: Uid = None, as_json: JsonAnyway = False) -> None:
    """Check a bundle and put it in service; prints {pipeline_uid, name, hash, version}."""
    checked = read_bundle(file, uid)

    async def command(settings: Settings) -> None:
        deployed = await put_in_service(settings, checked)
        print_json({"pipeline_uid": deployed.uid, "name": deployed.name, "hash": deployed.hash, "version": deployed.version})

    run(command)
