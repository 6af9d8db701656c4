"""`memrelay say PIPELINE TEXT`: send a message and print the results of its cascade."""

from typing import Annotated

import typer

from memrelay.bus.request import Requester
from memrelay.bus.streams.entry import NewEntry
from memrelay.cli.composition import bus_address, run
from memrelay.cli.messages import make_envelope, print_results, send_and_wait
from memrelay.cli.options import JsonAnyway, Pipeline, Swarm, Text, User, Wait
from memrelay.cli.pipeline import look_up
from memrelay.cli.settings import Settings
from memrelay.pipelines.commands import hint_for

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
    """Send a message to a swarm and print the results, one JSON line each.

    No output is a valid result. The exit code is 1 if the message failed or an answer is an error.
    """

    async def command(settings: Settings) -> None:
        interface = await look_up(settings, pipeline)
        interface.check_swarm(swarm)
        data = make_envelope(text, user, settings.bus.max_message_bytes)
        async with Requester(bus_address(settings)) as requester:
            report = await send_and_wait(requester, NewEntry(interface.uid, data, swarm), wait)
        if not print_results(report, whole=envelope, hint=hint_for(text, interface.commands)):
            raise typer.Exit(1)

    run(command)
