"""Deploying a bundle: every fault at once, then the catalogue, then word to the workers."""
import time
from pathlib import Path

import typer

from bus.connection import connect
from bus.errors import BusError
from bus.wire import CHANGES
from cli.composition import bus_address, fail
from cli.settings import Settings
from memory.catalog import Catalog, Deployed
from pipelines.check import Checked, check


def read_bundle(file: Path, uid: str | None) -> Checked:
    """The checked bundle of a file; faults and warnings go to stderr, and faults end the command with code 1."""
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
    """Makes a bundle the active one of its pipeline. Workers that hear of it serve it at once, others when they start."""
    bundle = checked.bundle
    assert bundle is not None
    async with Catalog(settings.memory.root) as catalog:
        deployed = await catalog.deploy(bundle.uid, bundle.name, bundle.hash, bundle.source, time.time_ns() // 1_000_000)
    await announce(settings)
    return deployed


async def announce(settings: Settings) -> None:
    """Tells the workers to look at the catalogue. Without a bus there is nobody to tell."""
    try:
        connection = await connect(bus_address(settings))
    except BusError:
        return
    await connection.call("PUBLISH", CHANGES, "deployed")
    await connection.close()
