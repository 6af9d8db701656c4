"""What became of an input: what is said, kept for a replay, to be run further, or given up."""
from collections.abc import Iterator
from typing import Any

import hiredis
import orjson
from msgspec import Struct

from bus.resp import SwarmPen, pack
from bus.wire import swarm_key
from memory.sqlite.pending import Pending
from pipelines.plan import Plan


class Letter(Struct, frozen=True):
    """An input that was given up, as it came, and why."""

    error: str
    swarm: str
    data: bytes
    bundle: str


class Outcome(Struct):
    """What an input led to. Said messages are kept as the commands that say them, packed once."""

    id: str
    uid: str
    root: str            # the id of the input that it began with
    reply: str           # the channel that awaits the end of the cascade
    logged: list[bytes] = []    # XADD of each message to its swarm's log
    live: list[bytes] = []      # PUBLISH of each but the first `heard`
    heard: int = 0              # messages that were published on the channel by who said them: the input itself, or none
    results: list[int] = []     # the places of what nobody in the pipeline took further
    size: int = 0        # bytes of `logged`
    store: str = ""      # where its inbox row is, "" where nothing was kept
    origin: str = ""     # of a continuation: the store that keeps it
    continuations: tuple[Pending, ...] = ()
    silent: tuple[str, ...] = ()   # agents that answered, but do not publish
    letter: Letter | None = None   # what goes to the dead letters, where the input was given up

    @property
    def key(self) -> str:
        """The input's name in stores."""
        return f"{self.uid}/{self.id}"

    def report(self) -> dict[str, list[Any]]:
        """What a caller who awaits the end of the cascade is told of this part of it."""
        envelopes = [data for _, _, data in _parsed(b"".join(self.logged))]
        told: dict[str, list[Any]] = {"results": [orjson.Fragment(envelopes[at]) for at in self.results]}
        if self.silent:
            told["silent"] = list(self.silent)
        if self.letter:
            told["errors"] = [self.letter.error]
        return told


def to_outputs(outcome: Outcome) -> bytes:
    """What the inbox keeps: a line with the number of the heard and the places of the results, then the log's commands."""
    return b"".join((b"%d%s\n" % (outcome.heard, orjson.dumps(outcome.results)), *outcome.logged))


class Pens:
    """The pens of the swarms, made once each."""

    def __init__(self, log_length: int) -> None:
        """`log_length` is how many entries a swarm's log keeps, about."""
        self._log_length = log_length
        self._pens: dict[str, dict[str, SwarmPen]] = {}

    def of(self, plan: Plan) -> dict[str, SwarmPen]:
        """The pens of a pipeline, by swarm."""
        pens = self._pens.get(plan.hash)
        if pens is None:
            pens = {swarm: SwarmPen(swarm_key(plan.uid, swarm), self._log_length) for swarm in plan.swarms}
            self._pens[plan.hash] = pens
        return pens

    def add_outputs(self, outcome: Outcome, outputs: bytes) -> Outcome:
        """Gives an outcome what the inbox kept. Its live copies are made again from the log's commands."""
        first, _, commands = outputs.partition(b"\n")
        outcome.size = len(commands)
        outcome.heard, outcome.results = int(first[:1]), orjson.loads(first[1:])
        for at, (key, mid, data) in enumerate(_parsed(commands)):
            log, live = SwarmPen(key.decode(), self._log_length).write_sealed(mid, data)
            outcome.logged.append(log)
            if at >= outcome.heard:
                outcome.live.append(live)
        return outcome


def _parsed(commands: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(key, mid, envelope) of XADD commands."""
    reader = hiredis.Reader()
    reader.feed(commands)
    while (command := reader.gets()) is not False:
        yield command[1], command[7], command[9]


def publish(channel: str, value: dict[str, Any]) -> bytes:
    """The command that publishes JSON on a channel."""
    return pack("PUBLISH", channel, orjson.dumps(value))
