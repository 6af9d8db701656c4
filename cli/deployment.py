"""Deploying a bundle: every fault at once, then the catalogue, then word to the workers."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import typer

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusError
from memrelay.cli.composition import bus_address, fail
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json
from memrelay.memory.control.catalog import Catalog, Deployed
from memrelay.pipelines.check import Checked, check
from memrelay.web.api.deployments import Deployments


def read_bundle(file: Path, uid: str | None) -> Checked:
    """The checked bundle of a file; faults and warnings go to stderr, and faults end the command
    with code 1."""
    try:
        raw = file.read_bytes()
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    checked = check(raw, uid=uid)
    for fault in (*checked.faults, *checked.warnings):
        typer.echo(fault.as_line(str(file)), err=True)
    if checked.bundle is None:
        raise typer.Exit(1)
    return checked


async def deploy(settings: Settings, checked: Checked) -> Deployed:
    """Makes a bundle the active one of its pipeline. Workers that hear of it serve it at once,
    others when they start."""
    async with deployments(settings) as service:
        return (await service.deploy(checked.accepted())).after


async def tell(service: Deployments, deployed: Deployed) -> None:
    """Prints what is in service now, as soon as a worker serves it, or after some seconds."""
    print_json(
        {
            "pipeline_uid": deployed.uid,
            "name": deployed.name,
            "hash": deployed.hash,
            "version": deployed.version,
            "served": await service.is_served(deployed),
        }
    )


@asynccontextmanager
async def deployments(settings: Settings) -> AsyncIterator[Deployments]:
    """What changes the catalogue, with a bus to announce it on where one runs."""
    async with Catalog(settings.memory.root) as catalog, AsyncExitStack() as stack:
        try:
            line = await stack.enter_async_context(ReconnectingConnection(bus_address(settings)))
        except BusError:
            line = None
        yield Deployments(catalog, line)
