"""`memrelay send PIPELINE TEXT`: appends a message durably, and waits for nothing that comes of
it."""

import sys
from typing import Annotated

import typer

from memrelay.bus.codec import decode
from memrelay.bus.errors import MalformedMessage
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.ingress import Ingress
from memrelay.cli.composition import bus_address, run
from memrelay.cli.options import Json, Pipeline, User, own_id
from memrelay.cli.pipeline import envelope_of, look_up
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line

Said = Annotated[
    str,
    typer.Argument(metavar="TEXT", help="What to say; - reads it from stdin.", show_default=False),
]
OnSwarm = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The swarm to say it on, chat where nothing is chosen."),
]
ToAgent = Annotated[
    str | None,
    typer.Option(metavar="ALIAS", help="Hand it to this agent alone, whatever its agent_from."),
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="ID",
        callback=own_id,
        help="Your own id: within 4 days the same has no second effect.",
    ),
]
Envelope = Annotated[
    bool, typer.Option("--envelope", help='TEXT is a whole envelope: {"from": ..., "args": [...]}.')
]


def send(
    pipeline: Pipeline,
    text: Said,
    *,
    swarm: OnSwarm = None,
    agent: ToAgent = None,
    user: User = "User",
    ident: Id = None,
    envelope: Envelope = False,
    as_json: Json = False,
) -> None:
    """Say something on a swarm, or to one agent; print the message's id once the bus has it."""
    if swarm is not None and agent is not None:
        raise typer.BadParameter(
            "a message goes to a swarm or to an agent, not to both", param_hint="--agent"
        )

    async def command(settings: Settings) -> None:
        spoken, most = await look_up(settings, pipeline), settings.bus.max_message_bytes
        if agent is not None:
            spoken.check_agent(agent)
        else:
            spoken.check_swarm(swarm or "chat")
        said = _from_stdin(most) if text == "-" else text
        data = _checked(said, most) if envelope else envelope_of(said, user, most)
        entry = NewEntry(
            spoken.uid,
            data,
            swarm="" if agent else swarm or "chat",
            agent=agent or "",
            producer_id=ident or "",
        )
        async with Ingress(bus_address(settings)) as ingress:
            message_id = await ingress.append(entry)
        if as_json:
            to = {"agent": entry.agent} if agent else {"swarm": entry.swarm}
            print_json({"id": message_id, "pipeline_uid": spoken.uid, **to})
        else:
            print_line(message_id)

    run(command)


def _from_stdin(most_bytes: int) -> str:
    """All of it but the end of its last line. Raises MalformedMessage."""
    data = sys.stdin.buffer.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise MalformedMessage(
            f"stdin has more than {most_bytes} bytes, which is what bus.max_message_bytes allows"
        )
    try:
        return data.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise MalformedMessage("stdin must be text in UTF-8") from error


def _checked(envelope: str, most_bytes: int) -> bytes:
    """The envelope as it came. Raises MalformedMessage."""
    data = envelope.encode(errors="surrogateescape")
    decode(data, most_bytes)
    return data
