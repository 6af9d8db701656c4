"""Reads the messages of one entry from the logs of all swarms of its pipeline."""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.codec import decode
from memrelay.bus.errors import MalformedMessage
from memrelay.bus.streams.log import LogEntry
from memrelay.bus.streams.message_log import read_message_log
from memrelay.web.api.directory import Served
from memrelay.web.trace.inputs import parse_place
from memrelay.web.trace.tree import Published, place_in_tree

MAX_MESSAGES = 1000
# Characters of a message's text.
MAX_CHARACTERS = 2000


class Said(NamedTuple):
    """The messages of one entry. `is_complete` is False if some may be missing."""

    messages: list[Published]
    is_complete: bool


async def read_said(client: ReconnectingConnection, served: Served, entry: str) -> Said:
    """Return the messages that an entry led to, placed in a tree.

    Raises BusUnavailable and BusRefused.
    """
    uid, found, is_complete = served.deployed.uid, dict[str, Published](), True
    # Messages of a cascade that publishes on a public swarm have the uid in front.
    prefixes = (f"{entry}.", f"{uid}/{entry}.")
    logs = await asyncio.gather(
        *[
            read_message_log(client, served.bundle.home_of(swarm), swarm, prefixes, MAX_MESSAGES)
            for swarm in served.swarms
        ]
    )
    for swarm, log in zip(served.swarms, logs, strict=True):
        is_complete = is_complete and log.is_complete
        for one in _parse(log.entries, swarm, entry, uid):
            # After a lost connection the worker publishes a message again.
            found.setdefault(one.mid, one)
    messages = place_in_tree(found.values(), served.bundle.agents)
    return Said(messages[:MAX_MESSAGES], is_complete and len(messages) <= MAX_MESSAGES)


def _parse(entries: Iterable[LogEntry], swarm: str, entry: str, uid: str) -> Iterable[Published]:
    for one in entries:
        place = parse_place(one.mid, entry, uid)
        if place is None:
            continue
        try:
            message = decode(one.data, len(one.data))
            sender, text = message.sender, message.text
        except MalformedMessage:
            sender, text = "", one.data.decode(errors="replace")
        yield Published(
            one.mid, place, swarm, sender, text[:MAX_CHARACTERS], len(text), one.place[0]
        )
