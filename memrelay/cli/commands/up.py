"""`memrelay up`: bus, worker and web server in one process, with the sample pipeline."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Annotated

import typer

from memrelay.bus.client.url import Address
from memrelay.bus.keys import swarm_key
from memrelay.cli.composition import bus_name, bus_password_file, make_catalog
from memrelay.cli.deployment import deploy, read_bundle
from memrelay.cli.imports import load
from memrelay.cli.options import JsonLog
from memrelay.cli.process import POLL_INTERVAL_S, Service, serve
from memrelay.cli.services import make_worker
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import greet, print_json
from memrelay.cli.time_zone import write_machine_zone
from memrelay.cli.web_server import make_web
from memrelay.installation import PROGRAM
from memrelay.web.app import WebServer
from memrelay.web.console.examples import redis_cli

SAMPLE_NAME = "memory_test"
SAMPLE = Path(__file__).resolve().parent.parent.parent / "pipelines" / "memory_test.json"
Reload = Annotated[
    bool,
    typer.Option("--reload", help="Load changed files of blocks.paths again while it runs."),
]
GREETING = """
Memrelay serves the pipeline memory_test ({uid}).
Open {url} in a browser, or use a second terminal in this folder:

  {program} chat memory_test
  {program} say memory_test "/write The meeting is at 3pm"
  {program} say memory_test "/search meeting"

  curl '{url}/v1/pipelines/{uid}/swarms/chat/messages?wait=5' -d '{{"text": "/read"}}'

or a Redis client (`{program} bus --url` prints the URL, with the password):

  {redis_cli}

  SUBSCRIBE '{channel}'
  PUBLISH '{channel}' '{{"from": "User", "id": "me", "args": [{{"text": "/write tea"}}]}}'

Press Ctrl-C to stop. Messages and records are kept.
"""


def up(*, reload: Reload = False, as_json: JsonLog = False) -> None:
    """Start the embedded bus, a worker and the web server, and deploy the sample pipeline."""
    make = load("memrelay.cli.reloading").make_reloading_worker if reload else make_worker
    # The web server stops first, so the worker still answers its open requests.
    serve(
        _make_web,
        make,
        with_bus=True,
        prepare=partial(_deploy_sample, as_json=as_json),
        as_json=as_json,
    )


def _make_web(settings: Settings, address: Address) -> WebServer:
    write_machine_zone(settings)
    return make_web(settings, address)


@asynccontextmanager
async def _exclusive(folder: Path) -> AsyncIterator[None]:
    """Let one of several starting processes deploy the sample. The others find it deployed."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(POLL_INTERVAL_S)
        yield
    finally:
        os.close(descriptor)


async def _deploy_sample(settings: Settings, services: Sequence[Service], *, as_json: bool) -> None:
    url = next(service.url for service in services if isinstance(service, WebServer))
    async with make_catalog(settings) as catalog, _exclusive(settings.memory.root):
        samples = [one for one in await catalog.active() if one.name == SAMPLE_NAME]
        # An active sample is kept: the user may have edited it.
        deployed = (
            min(samples, key=attrgetter("deployed_at"))
            if samples
            else await deploy(settings, read_bundle(settings, SAMPLE, None))
        )
    bus = bus_name(settings)
    if as_json:
        greet(partial(print_json, {"pipeline_uid": deployed.uid, "url": url, "bus": bus}))
        return
    channel = swarm_key(deployed.uid, "chat")
    client = redis_cli(bus, bus_password_file(settings))
    greeting = GREETING.format(
        program=PROGRAM, uid=deployed.uid, redis_cli=client, channel=channel, url=url
    )
    greet(partial(typer.echo, greeting))
