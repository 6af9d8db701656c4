"""`memrelay say PIPELINE TEXT`: says something on a swarm and prints what comes of it."""
import time
from typing import Annotated, Any

import orjson
import typer

from bus.codec import encode
from bus.entry import NewEntry
from bus.message import JSON
from bus.message import say as make_message
from bus.request import Requester
from cli.composition import bus_address, pipeline_named, print_json, run
from cli.settings import Settings
from memory.catalog import Catalog

Swarm = Annotated[str, typer.Option(help="The swarm to say it on.")]
User = Annotated[str, typer.Option("--as", help="The name to say it under.")]
Wait = Annotated[float, typer.Option(help="How long to wait for the end of the cascade, s.")]
Whole = Annotated[bool, typer.Option("--envelope", help="Print whole envelopes instead of their texts.")]


def say(pipeline: str, text: str, *, swarm: Swarm = "chat", user: User = "User", wait: Wait = 30.0,
        envelope: Whole = False) -> None:
    """Say something on a swarm and print the results, a JSON line each; none is an answer too."""
    async def command(settings: Settings) -> None:
        async with Catalog(settings.memory.root) as catalog:
            uid = (await pipeline_named(catalog, pipeline)).uid
        message = make_message(user, "cli", text, username=user, now_ms=time.time_ns() // 1_000_000)
        async with Requester(bus_address(settings)) as requester:
            report = await requester.say(NewEntry(uid, encode(message), swarm), wait)
        _print(report, envelope)

    run(command)


def _print(report: dict[str, Any], whole: bool) -> None:
    for result in report["results"]:
        print_json(result if whole else _payload(result["args"][0]))
    for alias in report.get("silent", ()):
        typer.echo(f"memrelay: {alias} ran, but does not publish (wf_publish_results)", err=True)
    for error in report.get("errors", ()):
        typer.echo(f"memrelay: the message is in the dead letters: {error}", err=True)
    if not report["results"] and len(report) == 3:
        typer.echo("memrelay: no results: nothing in the pipeline answers to this", err=True)
    if "errors" in report:
        raise typer.Exit(1)


def _payload(part: dict[str, Any]) -> Any:
    """What a result says: JSON as it is, text as a JSON string."""
    return orjson.Fragment(part["text"]) if part.get("type") == JSON else part["text"]
