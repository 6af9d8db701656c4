"""`memrelay deploy FILE`: checks a bundle and puts it in service."""
from pathlib import Path
from typing import Annotated

import typer

from cli.composition import print_json, run
from cli.deployment import deploy as put_in_service
from cli.deployment import read_bundle
from cli.settings import Settings

Uid = Annotated[str | None, typer.Option(help="Deploy as this pipeline; without, the bundle's pipeline_uid, else a new one.")]


def deploy(file: Path, uid: Uid = None) -> None:
    """Check a bundle and put it in service; prints {pipeline_uid, name, hash, version}."""
    checked = read_bundle(file, uid)

    async def command(settings: Settings) -> None:
        deployed = await put_in_service(settings, checked)
        print_json({"pipeline_uid": deployed.uid, "name": deployed.name, "hash": deployed.hash, "version": deployed.version})

    run(command)
