"""`memrelay up`: everything in one process, with the sample pipeline to try."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path

import typer

from memrelay.bus.keys import swarm_key
from memrelay.cli.composition import bus_name
from memrelay.cli.deployment import deploy, read_bundle
from memrelay.cli.options import JsonLog
from memrelay.cli.process import LOOK_S, Service, serve
from memrelay.cli.services import make_worker
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import greet, print_json
from memrelay.cli.web_server import make_web
from memrelay.memory.control.catalog import Catalog
from memrelay.web.server.service import WebServer

SAMPLE = Path(__file__).resolve().parent.parent.parent / "pipelines" / "memory_test.json"

WELCOME = """
Memrelay serves the pipeline memory_test ({uid}). Open {url} in a browser, or from a second terminal in this folder:

  .venv/bin/memrelay chat memory_test
  .venv/bin/memrelay say memory_test "/write The meeting is at 3pm"
  .venv/bin/memrelay say memory_test "/search meeting"

  curl '{url}/v1/pipelines/{uid}/swarms/chat/messages?wait=5' -d '{{"text": "/read"}}'

or with any Redis client on {bus}:

  SUBSCRIBE '{channel}'
  PUBLISH '{channel}' '{{"from": "User", "id": "me", "args": [{{"text": "/write The meeting is at 3pm"}}]}}'

Ctrl-C ends it; what was said and stored is kept.
"""


def up(*, as_json: JsonLog = False) -> None:
    """Start the embedded bus, a worker and the web server, deploy the sample pipeline, and say what
    to try."""
    # In this order they end: what still waits for an answer over HTTP gets it from the worker.
    serve(
        make_web,
        make_worker,
        with_bus=True,
        prepare=partial(_deploy_sample, as_json=as_json),
        as_json=as_json,
    )


@asynccontextmanager
async def _one_at_a_time(folder: Path) -> AsyncIterator[None]:
    """Of several that start at once, else each would deploy a sample of its own, and its name would
    stand for none of them."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(LOOK_S)
        yield
    finally:
        os.close(descriptor)


async def _deploy_sample(settings: Settings, services: Sequence[Service], *, as_json: bool) -> None:
    url = next(service.url for service in services if isinstance(service, WebServer))
    async with Catalog(settings.memory.root) as catalog, _one_at_a_time(settings.memory.root):
        there = [one for one in await catalog.active() if one.name == "memory_test"]
        # One that is in service stays as it is: it may have been edited.
        deployed = (
            min(there, key=attrgetter("deployed_at"))
            if there
            else await deploy(settings, read_bundle(SAMPLE, None))
        )
    channel = swarm_key(deployed.uid, "chat")
    if as_json:
        greet(
            partial(
                print_json, {"pipeline_uid": deployed.uid, "url": url, "bus": bus_name(settings)}
            )
        )
        return
    greet(
        partial(
            typer.echo,
            WELCOME.format(uid=deployed.uid, bus=bus_name(settings), channel=channel, url=url),
        )
    )
