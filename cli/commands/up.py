"""`memrelay up`: everything in one process, with the sample pipeline to try."""
from pathlib import Path

import typer

from bus.embedded.socket_path import socket_of
from bus.wire import swarm_key
from cli.deployment import deploy, read_bundle
from cli.process import serve
from cli.settings import Settings
from memory.catalog import Catalog

SAMPLE = Path(__file__).resolve().parent.parent.parent / "pipelines" / "memory_test.json"

WELCOME = """
Memrelay serves the pipeline memory_test ({uid}). In a second terminal, from this folder:

  .venv/bin/memrelay say memory_test "/write The meeting is at 3pm"
  .venv/bin/memrelay say memory_test "/search meeting"
  .venv/bin/memrelay say memory_test "/read"

or with any Redis client on {bus}:

  SUBSCRIBE '{channel}'
  PUBLISH '{channel}' '{{"from": "User", "id": "me", "args": [{{"text": "/write The meeting is at 3pm"}}]}}'

Ctrl-C ends it; what was said and stored is kept.
"""


def up() -> None:
    """Start the embedded bus and a worker, deploy the sample pipeline, and say what to try."""
    serve(_deploy_sample)


async def _deploy_sample(settings: Settings) -> None:
    async with Catalog(settings.memory.root) as catalog:
        there = await catalog.find("memory_test")
    deployed = await deploy(settings, read_bundle(SAMPLE, there.uid if there else None))
    bus = settings.bus.url.rpartition("@")[2] or socket_of(settings.bus.data)
    typer.echo(WELCOME.format(uid=deployed.uid, bus=bus, channel=swarm_key(deployed.uid, "chat")))
