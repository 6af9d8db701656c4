"""`memrelay say PIPELINE TEXT`: says something on a swarm and prints what comes of it."""

from typing import Annotated

import typer

from memrelay.bus.request import Requester
from memrelay.bus.streams.entry import NewEntry
from memrelay.cli.composition import bus_address, run
from memrelay.cli.options import JsonAnyway, Pipeline, Swarm, Text, User, Wait
from memrelay.cli.pipeline import ask, envelope_of, look_up
from memrelay.cli.report import print_results
from memrelay.cli.settings import Settings

Whole = Annotated[
    bool, typer.Option("--envelope", help="Print whole envelopes instead of their texts.")
]


def say(
    pipeline: Pipeline,
    text: Text,
    *,
    swarm: Swarm = "chat",
    user: User = "User",
    wait: Wait = 30.0,
    envelope: Whole = False,
    as_json: JsonAnyway = False,
) -> None:
    """Say something on a swarm and print the results, a JSON line each; none is an answer too."""

    async def command(settings: Settings) -> None:
        spoken = await look_up(settings, pipeline)
        spoken.check_swarm(swarm)
        entry = NewEntry(spoken.uid, envelope_of(text, user, settings.bus.max_message_bytes), swarm)
        async with Requester(bus_address(settings)) as requester:
            report = await ask(requester, entry, wait)
        if not print_results(report, whole=envelope):
            raise typer.Exit(1)

    run(command)
