"""Deploy a bundle: check it, store it in the catalog, and notify the workers."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import typer

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusError
from memrelay.cli.composition import bus_address, fail, make_catalog, make_secrets
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json
from memrelay.cli.time_zone import find_default_zone
from memrelay.memory.control.catalog import Deployed
from memrelay.pipelines.check import Checked, check
from memrelay.web.api.deployments import Deployments


def read_bundle(settings: Settings, file: Path, uid: str | None) -> Checked:
    """Return the checked bundle of a file. Print its faults and warnings to stderr.

    Faults end the command with exit code 1.
    """
    try:
        raw = file.read_bytes()
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    checked = check(
        raw,
        uid=uid,
        secrets=make_secrets(settings),
        timezone=find_default_zone(settings),
        public_url=settings.web.public_url,
    )
    for fault in (*checked.faults, *checked.warnings):
        typer.echo(fault.as_line(str(file)), err=True)
    if checked.bundle is None:
        raise typer.Exit(1)
    return checked


async def deploy(settings: Settings, checked: Checked) -> Deployed:
    """Activate a bundle. Running workers serve it at once, others when they start."""
    async with deployments(settings) as service:
        return (await service.deploy(checked.accepted())).after


async def print_deployed(service: Deployments, deployed: Deployed) -> None:
    """Print the active version as JSON. Wait some seconds for a worker to serve it."""
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
    """Open the deployment service. Without a running bus, it cannot notify workers."""
    async with make_catalog(settings) as catalog, AsyncExitStack() as stack:
        try:
            connection = await stack.enter_async_context(
                ReconnectingConnection(bus_address(settings))
            )
        except BusError:
            connection = None
        yield Deployments(catalog, connection, make_secrets(settings))
