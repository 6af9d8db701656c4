"""`memrelay webhooks PIPELINE [ALIAS]`: the webhooks of a pipeline and their last requests."""

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.cli.composition import bus_address, fail, run
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.pipeline import load_bundle
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import table
from memrelay.web.webhooks.requests import MAX_ROWS, describe_webhooks, list_receivers

# Requests of each webhook in a list of all, and of one alone.
FEW, ALL = 5, 2 * MAX_ROWS
# Characters of a column.
MAX_CHARACTERS = 100
HEADING = "TIME", "STATUS", "VERDICT", "EVENT", "DELIVERY", "MESSAGE", "REASON"

Alias = Annotated[
    str | None,
    typer.Argument(
        metavar="ALIAS", help=f"Only this agent, with up to {ALL} requests. All by default."
    ),
]


def webhooks(pipeline: Pipeline, alias: Alias = None, *, as_json: Json = False) -> None:
    """Show the webhooks of a pipeline: URL, sender, secrets and the last requests.

    Tables on a terminal, otherwise JSON lines. Web servers add requests after half a second.
    """

    async def command(settings: Settings) -> None:
        bundle = await load_bundle(settings, pipeline)
        agents = list_receivers(bundle.agents)
        aliases = ", ".join(agent.agent.alias for agent in agents) or "there are none"
        if alias is not None:
            agents = [agent for agent in agents if agent.agent.alias == alias]
        if alias is not None and not agents:
            fail(
                f"pipeline {bundle.name} has no agent {alias!r} that accepts webhooks; choose one "
                f"of them: {aliases}"
            )
        limit = FEW if alias is None else ALL
        async with ReconnectingConnection(bus_address(settings)) as line:
            items = await describe_webhooks(
                line, bundle.uid, agents, _make_server_url(settings), limit
            )
        if as_json or not sys.stdout.isatty():
            for item in items:
                print_json(item)
            return
        for item in items:
            for text in _describe(item):
                print_line(text)

    run(command)


def _make_server_url(settings: Settings) -> str:
    """Return `web.public_url`, or the address on which the web server listens."""
    web = settings.web
    host = f"[{web.host}]" if ":" in web.host else web.host
    return web.public_url or f"http://{host}:{web.port}{web.base_path}"


def _describe(item: dict[str, Any]) -> Iterator[str]:
    places = [*item["secrets"], *filter(None, [item["token"]]), *item["networks"]]
    yield f"{item['agent']}: {item['url']}"
    yield f"  sender {item['sender']}, {', '.join(places) or 'open to keys with the scope publish'}"
    rows = [
        (
            row["at"],
            str(row["status"]),
            row["verdict"],
            row["event"][:MAX_CHARACTERS],
            row["delivery_id"][:MAX_CHARACTERS],
            row["message_id"],
            row["reason"][:MAX_CHARACTERS] if row["reason"] else row["outcome"],
        )
        for row in item["requests"]
    ]
    lines = table([HEADING, *rows]) if rows else ["No requests yet."]
    yield from (f"  {line}" for line in lines)
    yield ""
