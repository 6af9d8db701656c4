"""Deduces which agent published each message of a cascade, and which message it answers.

A log does not contain these. The worker handles the messages of a cascade in their order. For each
it calls the agents that hear it, in the order of the bundle, and each answers at most once. So an
answer belongs to the first message that its agent receives and has not answered.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import orjson

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.codec import decode
from memrelay.bus.errors import MalformedMessage
from memrelay.bus.streams.log import LogEntry, read_message_log
from memrelay.pipelines.bundle import accepts
from memrelay.pipelines.checked import CheckedAgent
from memrelay.web.api.directory import Served

# The id of an input without its entry, the message's number, and the digest.
POSITION = re.compile(r"((?:\.[0-9]{1,18}\+[0-9]{1,18})*)\.([0-9]{1,18})~[0-9a-f]{8}")
# The last part of the id of a step that ran as its own input: the number of messages that its
# cascade had published, and its number among the steps of the cascade.
STEP = re.compile(r"\.([0-9]{1,18})\+([0-9]{1,18})$")
MAX_MESSAGES = 1000
# Characters of a message's text, and of the error of a request.
MAX_CHARACTERS, MAX_FAULT = 2000, 300
# Blocks that send requests. They publish the answer as JSON, with `error` for a failed request.
SEND_BLOCKS = ("http_request", "webhook_send")


class MessagePosition(NamedTuple):
    """The position of a message: the path of its input, "" for the entry itself, and its number."""

    path: str
    number: int

    @property
    def order(self) -> tuple[list[int], int]:
        """Return a key that sorts a cascade before its later steps."""
        return [int(number) for number in re.findall(r"[0-9]+", self.path)], self.number


class Step(NamedTuple):
    """A step of a cascade that ran later: the path of the cascade that it continues, how many
    messages that had published before, and the step's number.
    """

    base: str
    published: int
    number: int


def parse_position(mid: str, entry: str, uid: str) -> MessagePosition | None:
    """Return the position of a message among those of an entry; None if it is not one of them."""
    found = POSITION.fullmatch(mid.removeprefix(f"{uid}/").removeprefix(entry))
    return None if found is None else MessagePosition(found[1], int(found[2]))


def parse_step(path: str) -> Step | None:
    """Return the step with this path; None for the entry itself."""
    found = STEP.search(path)
    return None if found is None else Step(path[: found.start()], int(found[1]), int(found[2]))


def parse_entry_id(ident: str) -> str:
    """Return the entry in the id of an input or message, "" if there is none."""
    found = re.match(r"(?:[A-Za-z0-9_-]{1,64}/)?([0-9]{1,19}-[0-9]{1,19})(?:\.|$)", ident)
    return found[1] if found is not None else ""


def read_message(data: bytes) -> tuple[str, str]:
    """Return (sender, text) of a message. The text of a malformed one is its data."""
    try:
        message = decode(data, len(data))
    except MalformedMessage:
        return "", data.decode(errors="replace")
    return message.sender, message.text


def find_send_fault(text: str) -> str:
    """Return why a request failed, in the answer that a sending block published; "" if it did
    not.
    """
    if '"error"' not in text or not text.startswith("{"):
        return ""
    try:
        error = orjson.loads(text).get("error")
    except ValueError:
        return ""
    return error[:MAX_FAULT] if isinstance(error, str) else ""


@dataclass(frozen=True, slots=True)
class Published:
    """A message of a log. `published_at_ms` is in Unix ms."""

    mid: str
    position: MessagePosition
    swarm: str
    sender: str
    text: str
    characters: int
    published_at_ms: int
    # The mid of the message that it answers, "" for none.
    parent: str = ""
    # Answers from the first message to this one.
    hop: int = 0
    # The alias of the agent, "" for a sender outside of the pipeline.
    agent: str = ""
    block: str = ""
    # The error in its JSON, which is a failed request if a block for requests published it.
    error: str = ""

    @property
    def fault(self) -> str:
        """Return why the request that it reports failed, "" if none did."""
        return self.error if self.block in SEND_BLOCKS else ""


# The position of a message in its cascade, and that of an agent in the bundle.
Turn = tuple[int, int]
BEFORE_ALL: Turn = (-1, -1)


def place_in_tree(messages: Iterable[Published], agents: Sequence[CheckedAgent]) -> list[Published]:
    """Return the messages of one entry in order, with parent, hop, agent and block."""
    cascades = defaultdict[str, list[Published]](list)
    for one in sorted(messages, key=lambda one: one.position.order):
        cascades[one.position.path].append(one)
    tree = _Tree(agents, cascades)
    for path in [*cascades]:
        tree.place_cascade(path)
    return [one for cascade in cascades.values() for one in cascade]


class _Tree:
    """Places cascades, each after the one that it continues."""

    def __init__(
        self, agents: Sequence[CheckedAgent], cascades: dict[str, list[Published]]
    ) -> None:
        self._cascades = cascades
        self._publishers = defaultdict[tuple[str, str], list[tuple[int, CheckedAgent]]](list)
        for at, agent in enumerate(agents):
            if agent.agent.publishes:
                self._publishers[agent.agent.name, agent.send_swarm].append((at, agent))
        # By path of a cascade: the turns of its messages, and of its latest step.
        self._turns: dict[str, list[Turn]] = {}
        self._steps: dict[str, Turn] = {}

    def place_cascade(self, path: str) -> None:
        """Place the messages of a cascade."""
        cascade, turns, last = self._cascades[path], list[Turn](), BEFORE_ALL
        for index, message in enumerate(cascade):
            if index == 0:
                cascade[0] = self._place_first(message)
                turns.append(BEFORE_ALL)
                continue
            found = self._find_turn(message, cascade[:index], last)
            last = found or last
            turns.append(last)
            parent = cascade[found[0] if found else 0]
            cascade[index] = self._answer(message, parent, found)
        self._turns[path] = turns

    def _place_first(self, message: Published) -> Published:
        """Place the first message of a cascade: a step answers a message of another cascade."""
        step = parse_step(message.position.path)
        base = "" if step is None else step.base
        if step is None:
            return self._answer(message, None, None)
        heard = [
            one for one in self._cascades.get(base, ()) if one.position.number < step.published
        ]
        if not heard:
            return self._answer(message, self._find_origin(base), None)
        turns = self._turns[base]
        earliest = max(self._steps.get(base, BEFORE_ALL), (turns[len(heard) - 1][0], -1))
        found = self._find_turn(message, heard, earliest)
        self._steps[base] = found or earliest
        return self._answer(message, heard[found[0] if found else -1], found)

    def _find_origin(self, path: str) -> Published | None:
        """Return a message that led to a cascade without messages."""
        step = parse_step(path)
        while step is not None:
            before = [
                one
                for one in self._cascades.get(step.base, ())
                if one.position.number < step.published
            ]
            if before:
                return before[-1]
            step = parse_step(step.base)
        return None

    def _find_turn(
        self, message: Published, heard: Sequence[Published], after: Turn
    ) -> Turn | None:
        """Return the first turn after another in which an agent can have published a message."""
        publishers = self._publishers.get((message.sender, message.swarm), ())
        for at in range(max(after[0], 0), len(heard)):
            for index, agent in publishers:
                if (at, index) > after and _receives(agent, heard[at]):
                    return at, index
        return None

    def _answer(self, message: Published, parent: Published | None, turn: Turn | None) -> Published:
        publishers = self._publishers.get((message.sender, message.swarm), ())
        known = [agent for index, agent in publishers if turn is None or index == turn[1]]
        placed = message
        if known:
            placed = replace(placed, agent=known[0].agent.alias, block=known[0].block.name)
        if parent is not None:
            placed = replace(placed, parent=parent.mid, hop=parent.hop + 1)
        return placed


def _receives(agent: CheckedAgent, message: Published) -> bool:
    if not agent.calls or agent.rec_swarm != message.swarm:
        return False
    selector = agent.args.selector
    return accepts(agent.accepts, message.sender) and (
        selector is None
        or (selector.pattern.capture(message.text, 0) is not None) != selector.invert
    )


class CascadeMessages(NamedTuple):
    """The messages of one entry. `is_complete` is False if some may be missing."""

    messages: list[Published]
    is_complete: bool


async def read_messages(
    client: ReconnectingConnection, served: Served, entry: str
) -> CascadeMessages:
    """Return the messages that an entry led to, placed in a tree.

    Raises BusUnavailable and BusRefused.
    """
    uid, found, is_complete = served.deployed.uid, dict[str, Published](), True
    # Messages of a cascade that publishes on a public swarm have the uid in front.
    prefixes = (f"{entry}.", f"{uid}/{entry}.")
    logs = await asyncio.gather(
        *[
            read_message_log(
                client, served.bundle.swarm_owner(swarm), swarm, prefixes, MAX_MESSAGES
            )
            for swarm in served.swarms
        ]
    )
    for swarm, log in zip(served.swarms, logs, strict=True):
        is_complete = is_complete and log.is_complete
        for one in _parse(log.entries, swarm, entry, uid):
            # After a lost connection the worker publishes a message again.
            found.setdefault(one.mid, one)
    messages = place_in_tree(found.values(), served.bundle.agents)
    return CascadeMessages(messages[:MAX_MESSAGES], is_complete and len(messages) <= MAX_MESSAGES)


def _parse(entries: Iterable[LogEntry], swarm: str, entry: str, uid: str) -> Iterable[Published]:
    for one in entries:
        position = parse_position(one.mid, entry, uid)
        if position is None:
            continue
        sender, text = read_message(one.data)
        yield Published(
            *(one.mid, position, swarm, sender, text[:MAX_CHARACTERS], len(text), one.place[0]),
            error=find_send_fault(text),
        )
