"""`memrelay send PIPELINE TEXT`: append a message durably, without waiting for results."""

import sys
from typing import Annotated

import typer

from memrelay.bus.codec import decode
from memrelay.bus.errors import MalformedMessage
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.ingress import Ingress
from memrelay.cli.composition import bus_address, run
from memrelay.cli.messages import make_envelope
from memrelay.cli.options import Json, Pipeline, User, validate_idempotency_key
from memrelay.cli.pipeline import look_up
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line

TextOrStdin = Annotated[
    str, typer.Argument(metavar="TEXT", help="The message; - reads it from stdin.")
]
ToSwarm = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The swarm that gets the message. By default `chat`."),
]
ToAgent = Annotated[
    str | None,
    typer.Option(
        metavar="ALIAS", help="Send only to this agent. Its agent_from filter does not apply."
    ),
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="ID",
        callback=validate_idempotency_key,
        help="Idempotency key: within 4 days, a repeated message with it has no second effect.",
    ),
]
Envelope = Annotated[
    bool, typer.Option("--envelope", help='TEXT is a whole envelope: {"from": ..., "args": [...]}.')
]


def send(
    pipeline: Pipeline,
    text: TextOrStdin,
    *,
    swarm: ToSwarm = None,
    agent: ToAgent = None,
    user: User = "User",
    ident: Id = None,
    envelope: Envelope = False,
    as_json: Json = False,
) -> None:
    """Send a message to a swarm or an agent. Print its id when the bus has stored it."""
    if swarm is not None and agent is not None:
        raise typer.BadParameter("use either --swarm or --agent, not both", param_hint="--agent")

    async def command(settings: Settings) -> None:
        interface, max_bytes = await look_up(settings, pipeline), settings.bus.max_message_bytes
        if agent is not None:
            interface.check_agent(agent)
        else:
            interface.check_swarm(swarm or "chat")
        content = _read_stdin(max_bytes) if text == "-" else text
        entry = NewEntry(
            interface.uid,
            _check_envelope(content, max_bytes)
            if envelope
            else make_envelope(content, user, max_bytes),
            swarm="" if agent else swarm or "chat",
            agent=agent or "",
            producer_id=ident or "",
        )
        async with Ingress(bus_address(settings)) as ingress:
            message_id = await ingress.append(entry)
        if as_json:
            target = {"agent": entry.agent} if entry.agent else {"swarm": entry.swarm}
            print_json({"id": message_id, "pipeline_uid": entry.uid, **target})
        else:
            print_line(message_id)

    run(command)


def _read_stdin(max_bytes: int) -> str:
    """Return stdin without its last line break. Raises MalformedMessage."""
    data = sys.stdin.buffer.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise MalformedMessage(
            f"stdin has more than {max_bytes} bytes, the limit bus.max_message_bytes"
        )
    try:
        return data.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise MalformedMessage("stdin must be text in UTF-8") from error


def _check_envelope(envelope: str, max_bytes: int) -> bytes:
    """Return the envelope unchanged. Raises MalformedMessage."""
    data = envelope.encode(errors="surrogateescape")
    decode(data, max_bytes)
    return data
