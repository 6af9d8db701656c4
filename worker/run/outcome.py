"""What became of an input: what is said, kept for a replay, to be run further, or given up."""

from typing import Any

import msgspec
import orjson
from msgspec import Struct

from memrelay.bus.client.resp import Said, pack
from memrelay.bus.public_swarms import in_public, is_public, swarm_and_hop
from memrelay.bus.request import REFUSED, error_answer
from memrelay.memory.sqlite.inbox import Pending
from memrelay.worker.run.inputs import Input


class NewDeadLetter(Struct, frozen=True):
    """An input that was given up, as it came, and why."""

    error: str
    swarm: str
    data: bytes
    bundle: str
    agent: str = ""
    producer_id: str = ""
    hop: str = ""
    heard: bool = False
    attempts: int = 1  # how often it was tried


class Outcome(Struct, gc=False):
    """What an input led to."""

    key: str  # the input's name in stores
    id: str
    uid: str
    root: str  # the id of the input that it began with
    reply: str  # the channel that awaits the end of the cascade
    said: list[Said] = []  # its own message, and every answer
    said_by: str = ""  # the id of the input that said it first, where that was another
    began: str = ""  # as its input has it
    heard: int = (
        0  # what is done already for the first of `said`, the input itself (worker/run/inputs.py)
    )
    results: list[int] = []  # the places of what nobody in the pipeline took further
    size: int = 0  # bytes of `said`
    store: str = ""  # where its inbox row is, "" where nothing was kept
    origin: str = ""  # of a continuation: the store that keeps it
    entry: str = ""  # of a replay: the entry that brought it
    continuations: tuple[Pending, ...] = ()
    silent: tuple[str, ...] = ()  # agents that answered, but do not publish
    put_off: bool = False  # its store keeps it, to be run later: this is the end of its entry alone
    answer: bytes = b""  # of a call: what its caller is told, as JSON
    letter: NewDeadLetter | None = (
        None  # what goes to the dead letters, where the input was given up
    )

    def report(self) -> dict[str, Any]:
        """What a caller who awaits the end of the cascade is told of this part of it."""
        if self.answer:
            return {"answer": orjson.Fragment(self.answer)}
        told: dict[str, Any] = {
            "results": [orjson.Fragment(self.said[at][1]) for at in self.results]
        }
        if self.silent:
            told["silent"] = list(self.silent)
        if public := [swarm_and_hop(name)[0] for name, _ in self.said if is_public(name)]:
            told["public"] = public
        if self.letter:
            told["errors"] = [self.letter.error]
        return told

    def to_outputs(self, first: int, asked: int = 0) -> bytes:
        """What the inbox keeps of it, of what was said from place `first` on; `asked` is the digest
        of a call with a key."""
        kept = (self.id, self.heard, self.results, self.said[first:])
        return _to_msgpack(
            (*kept, self.answer, asked) if asked else (*kept, self.answer) if self.answer else kept
        )

    def take_outputs(self, outputs: bytes, before: list[Said]) -> None:
        """Gives it what the inbox kept, to be sent again; `before` is what was said and not
        kept."""
        kept = _from_msgpack(outputs)
        if kept.heard < 0:  # whatever this version of the bundle makes of that swarm
            before = [(in_public(swarm, -1 - kept.heard), data) for swarm, data in before]
        self.said_by, self.heard, self.results, self.answer = (
            kept.id,
            max(kept.heard, 0),
            kept.results,
            kept.answer,
        )
        self.said = [*before, *kept.said]
        self.size = sum(len(data) for _, data in self.said) + len(self.answer)


def silenced(outputs: bytes) -> bytes:
    """What the inbox keeps of an input that is done and whose answers were erased."""
    kept = _from_msgpack(outputs)
    answer = (
        error_answer(REFUSED, "what was answered to this call has been erased")
        if kept.answer
        else b""
    )
    return _to_msgpack(
        (kept.id, kept.heard, [], [], answer) if answer else (kept.id, kept.heard, [], [])
    )


def asked_of(outputs: bytes) -> int:
    """The digest of the call that led to this; 0 where none is kept."""
    return _from_msgpack(outputs).asked


def outcome_of(work: Input, store: str = "") -> Outcome:
    """The outcome of an input, with nothing in it yet; `store` has or gets its inbox row."""
    return Outcome(
        work.key,
        work.id,
        work.plan.uid,
        work.root or work.id,
        work.reply,
        began=work.began,
        store=store,
        entry=work.entry,
    )


class _Kept(Struct, frozen=True, array_like=True):
    """What the inbox keeps; only a call has an answer, and a digest where it has a key."""

    id: str
    heard: int
    results: list[int]
    said: list[Said]
    answer: bytes = b""
    asked: int = 0


_to_msgpack = msgspec.msgpack.Encoder().encode
_from_msgpack = msgspec.msgpack.Decoder(_Kept).decode


def publish(channel: str, value: dict[str, Any]) -> bytes:
    """The command that publishes JSON on a channel."""
    return pack("PUBLISH", channel, orjson.dumps(value))


# How far inputs have spread over public swarms: what is said there ends its cascade, and begins
# one in each that listens.
#
# Two that hear each other and themselves say twice as much with each hop, so hops alone do not bound
# it. Each worker counts what
# its own pipelines say, and begins anew with its process.

MOST = 10_000  # inputs that are known, the latest


class PublicMessageLimit:
    """By what the input that began it is called: pipeline and id. Changed by the loop alone, and
    read by database threads."""

    def __init__(self) -> None:
        """Nothing was said."""
        self._said: dict[str, int] = {}
        self._began: dict[str, str] = {}  # an input that goes on later -> what it began with

    def of(self, work: Input) -> int:
        """How many messages were said in public on account of what this input began with."""
        return self._said.get(self._name(work.began, work.plan.uid, work.root or work.id), 0)

    def add(self, outcome: Outcome, said: int) -> str:
        """It has said so much in public. What it began with."""
        name = self._name(outcome.began, outcome.uid, outcome.root)
        if said:
            self._said[name] = self._said.pop(name, 0) + said
            _forget_oldest(self._said)
        if outcome.began and (outcome.continuations or outcome.put_off):
            self._began[f"{outcome.uid}/{outcome.root}"] = name
            _forget_oldest(self._began)
        return name

    def _name(self, began: str, uid: str, root: str) -> str:
        own = f"{uid}/{root}"
        return began or self._began.get(own, own)


def _forget_oldest(known: dict[str, int] | dict[str, str]) -> None:
    if len(known) > MOST:
        del known[next(iter(known))]
