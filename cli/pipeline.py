"""A deployed pipeline as a person speaks to it: its swarms, the agents that take messages, its
commands."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from memrelay.bus.codec import encode
from memrelay.bus.errors import MalformedMessage, NoAnswer
from memrelay.bus.message import new_message
from memrelay.bus.request import Requester
from memrelay.bus.streams.entry import NewEntry
from memrelay.cli.composition import fail, pipeline_named, stored_catalog
from memrelay.cli.settings import Settings
from memrelay.memory.control.catalog import Catalog
from memrelay.pipelines.check import CheckedBundle, check
from memrelay.pipelines.commands import commands_of


@dataclass(frozen=True, slots=True)
class Spoken:
    """What can be said to a pipeline, and where."""

    uid: str
    name: str
    swarms: tuple[str, ...]
    aliases: tuple[str, ...]  # of the agents that take what is handed to them
    blocks: frozenset[str]  # the names under which blocks answer
    commands: dict[str, str]  # "/write" -> what it does
    home_of: Callable[[str], str]  # whose a swarm is, in the key of its log

    def check_swarm(self, swarm: str) -> None:
        """Ends the command where the pipeline has no such swarm."""
        if swarm not in self.swarms:
            fail(
                f"pipeline {self.name} has no swarm {swarm!r}; new_message which with --swarm: {_listed(self.swarms)}"
            )

    def check_agent(self, alias: str) -> None:
        """Ends the command where no such agent takes messages."""
        if alias not in self.aliases:
            fail(
                f"pipeline {self.name} has no agent {alias!r} that takes messages; "
                f"say which by its alias with --agent: {_listed(self.aliases)}"
            )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "there is none"


async def look_up(settings: Settings, uid_or_name: str) -> Spoken:
    """The pipeline of that uid or name. Ends the command where there is none."""
    async with stored_catalog(settings) as catalog:
        deployed = await pipeline_named(catalog, uid_or_name)
        source = await catalog.source(deployed.hash)
    checked = check(source or b"")
    if checked.bundle is None:
        fail(
            f"the bundle of {deployed.name} ({deployed.uid}) is none for this version: {checked.faults[0].rule}; "
            "correct what `memrelay export` prints, and `memrelay deploy` it"
        )
    return _spoken(checked.bundle)


def _spoken(bundle: CheckedBundle) -> Spoken:
    taking = [agent.agent.alias for agent in bundle.agents if agent.takes_messages]
    blocks = [agent.agent.name for agent in bundle.agents if agent.calls]
    return Spoken(
        bundle.uid,
        bundle.name,
        bundle.swarms,
        tuple(taking),
        frozenset(blocks),
        dict(commands_of(bundle)),
        bundle.home_of,
    )


async def uid_of(catalog: Catalog, uid_or_name: str) -> str:
    """The uid of a pipeline in service, or of one that was and is named by it. Ends the command
    where there is none."""
    if await catalog.find(uid_or_name) is None and await catalog.versions(uid_or_name):
        return uid_or_name
    return (await pipeline_named(catalog, uid_or_name)).uid


# What is said from the command line: as an envelope that the bus takes, and on to where its end is
# awaited.


def envelope_of(text: str, user: str, most_bytes: int) -> bytes:
    """The envelope of a text that `user` says now. Raises MalformedMessage."""
    message = new_message(user, "cli", text, username=user, now_ms=time.time_ns() // 1_000_000)
    try:
        data = encode(message)
    except UnicodeEncodeError as error:
        raise MalformedMessage("what is said must be text in UTF-8") from error
    if len(data) > most_bytes:
        raise MalformedMessage(
            f"the message has {len(data)} bytes; bus.max_message_bytes allows {most_bytes}: new_message it in parts"
        )
    return data


async def ask(requester: Requester, entry: NewEntry, wait_s: float) -> dict[str, Any]:
    """The report of what it leads to, as `Requester.say`; NoAnswer says what to do next."""
    try:
        return await requester.say(entry, wait_s)
    except NoAnswer as error:
        more = (
            f": {error.paused}"
            if error.paused
            else " `memrelay status` tells, `memrelay worker` starts one"
        )
        raise NoAnswer(f"{error}{more}", error.ident, error.paused) from error
