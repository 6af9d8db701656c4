"""The outcome of an input: published messages, continuations, an answer or a dead letter."""

from typing import Any

import msgspec
import orjson
from msgspec import Struct

from memrelay.bus.client.resp import SwarmMessage
from memrelay.bus.codec import encode
from memrelay.bus.keys import PublicSwarm, SwarmName
from memrelay.bus.request import REFUSED, error_answer
from memrelay.bus.streams.via import NO_VIA, Via
from memrelay.memory.engine.inbox import Pending
from memrelay.worker.run.inputs import Entry, Input, Published, Work


class NewDeadLetter(Struct, frozen=True):
    """A failed input as it arrived, and the reason. `frames` are those of `describe_frames`."""

    error: str
    swarm: str
    data: bytes
    bundle: str
    agent: str = ""
    producer_id: str = ""
    hop: str = ""
    published: bool = False
    attempts: int = 1
    frames: str = ""


class Outcome(Struct, gc=False):
    """The result of one input. The first of its `messages` is the input's own message."""

    # The name of the input in stores.
    key: str
    id: str
    uid: str
    # The id of the first input of the cascade.
    root: str
    # The channel that receives the report at the end of the cascade.
    reply: str
    messages: list[SwarmMessage] = []
    # The id under which the messages are published, if it is not `id`.
    publish_id: str = ""
    # Pipeline and id of the input that started a chain over public swarms.
    origin: str = ""
    # Where the first message was published already.
    published: Published = Published.NO
    # The numbers of the messages that no agent of the pipeline took.
    results: list[int] = []
    # Envelopes that a repeat also reports: results of steps in other stores.
    step_results: list[bytes] = []
    # The numbers under which the messages are published, if they are not 0, 1, 2, ...
    numbers: list[int] | None = None
    # Public swarms with messages that are not in `messages`.
    public: list[str] = []
    # Bytes of the messages.
    size: int = 0
    # The store with the inbox row; "" if there is none.
    store: str = ""
    # The store with the pending row of a continuation; "" for an entry.
    pending_store: str = ""
    # The ID of the entry that brought a replay.
    replay_entry: str = ""
    continuations: tuple[Pending, ...] = ()
    # The aliases of agents that answered and do not publish.
    silent: tuple[str, ...] = ()
    # Whether a store keeps the input for later, so that only its entry is finished.
    delayed: bool = False
    # The answer to a call as JSON.
    answer: bytes = b""
    dead_letter: NewDeadLetter | None = None
    # Whether policies have changed the texts, so that the inbox row keeps all messages.
    is_redacted: bool = False
    # The trace context for public swarms and a replay; only a worker with tracing sets it.
    traceparent: str = ""
    # How its input came in.
    via: Via = NO_VIA

    def build_report(self) -> dict[str, Any]:
        """Return this input's part of the report to the client that waits for the cascade."""
        if self.answer:
            return {"answer": orjson.Fragment(self.answer)}
        results = [self.messages[number][1] for number in self.results]
        report: dict[str, Any] = {
            "results": [orjson.Fragment(result) for result in (*results, *self.step_results)]
        }
        if self.silent:
            report["silent"] = list(self.silent)
        public = [swarm.name for swarm, _ in self.messages if isinstance(swarm, PublicSwarm)]
        if public or self.public:
            report["public"] = [*self.public, *public]
        if self.continuations:
            waiting = [one.agent for one in self.continuations if one.flow is not None]
            report |= {"parked": waiting} if waiting else {}
        if self.dead_letter:
            report["errors"] = [self.dead_letter.error]
        return report

    def to_outputs(self, first: int) -> bytes:
        """Return the inbox row's outputs, with the messages from number `first` on."""
        if self.is_redacted:
            fields = (self.id, self.published, self.results, self.messages)
            return _to_msgpack((*fields, self.answer, True))
        fields = (self.id, self.published, self.results, self.messages[first:])
        return _to_msgpack((*fields, self.answer) if self.answer else fields)

    def to_answer(self, call_digest: int = 0) -> bytes:
        """Return what a repeated idempotency key needs: the results without the messages before."""
        messages, numbers = self.messages, self.results
        public = [
            swarm.name
            for number, (swarm, _) in enumerate(messages)
            if isinstance(swarm, PublicSwarm) and number not in numbers
        ]
        results = [(number, *messages[number]) for number in numbers]
        return _to_msgpack((self.id, results, self.answer, call_digest, public, self.silent))

    def take_answer(self, answer: bytes) -> None:
        """Restore the results, to publish them again under their ids and to report them."""
        stored = _from_answer(answer)
        self.publish_id, self.answer = stored.id, stored.answer
        self.public, self.silent = stored.public, stored.silent
        self.messages = [(swarm, data) for _, swarm, data in stored.results]
        self.numbers = [number for number, _, _ in stored.results]
        self.results = list(range(len(self.messages)))
        self.size = sum(len(data) for _, data in self.messages) + len(self.answer)

    def take_outputs(self, outputs: bytes, unkept: list[SwarmMessage], hop: int) -> None:
        """Restore the messages to publish them again.

        `unkept` are the first messages, which the row does not have. Whether they go to a public
        swarm depends on the row, not on today's bundle; then they have `hop` hops.
        """
        stored = _from_msgpack(outputs)
        first: list[SwarmMessage] = [] if stored.is_whole else unkept
        if stored.published < 0:
            first = [(PublicSwarm(str(swarm), hop), data) for swarm, data in first]
        self.publish_id, self.results, self.answer = stored.id, stored.results, stored.answer
        self.published = Published(max(stored.published, 0))
        self.messages = [*first, *[(_find_swarm(name), data) for name, data in stored.messages]]
        self.size = sum(len(data) for _, data in self.messages) + len(self.answer)


def redact_outputs(outputs: bytes) -> bytes:
    """Return an inbox row's outputs without messages, for an input whose answers were erased."""
    stored = _from_msgpack(outputs)
    redacted: tuple[Any, ...] = (stored.id, stored.published, [], [])
    return _to_msgpack((*redacted, _ERASED) if stored.answer else redacted)


def redact_answer(answer: bytes) -> bytes:
    """Return the answer under an idempotency key without what was erased."""
    stored = _from_answer(answer)
    return _to_msgpack(_Answer(stored.id, [], _ERASED if stored.answer else b""))


def read_call_digest(answer: bytes) -> int:
    """Return the digest of the call that led to an answer; 0 if it has none."""
    return _from_answer(answer).call_digest


def new_outcome(work: Input, store: str = "") -> Outcome:
    """Return an empty outcome. `store` has the inbox row, or gets it."""
    return Outcome(
        work.key,
        work.id,
        work.plan.uid,
        work.root or work.id,
        work.reply,
        origin=work.origin,
        store=store,
        replay_entry=work.replay_entry,
        via=work.via,
    )


def failed_outcome(work: Work, error: str, attempts: int = 1, frames: str = "") -> Outcome:
    """Return the outcome of an input that becomes a dead letter."""
    if isinstance(work, Entry):
        return _fail_entry(work, error, attempts, frames)
    outcome = new_outcome(work)
    outcome.dead_letter = NewDeadLetter(
        error,
        work.swarm,
        encode(work.message),
        work.plan.hash,
        work.only_agent,
        work.producer_id,
        str(work.hop),
        work.published > 0,
        attempts,
        frames,
    )
    return outcome


def _fail_entry(entry: Entry, error: str, attempts: int, frames: str) -> Outcome:
    if name := entry.text(b"op"):
        error = f"{name[:100]}: {error}"
    dead_letter = NewDeadLetter(
        error,
        entry.text(b"swarm"),
        entry.field(b"data"),
        entry.plan.hash,
        entry.text(b"agent"),
        entry.text(b"id"),
        entry.text(b"hop"),
        bool(entry.field(b"published")),
        attempts,
        frames,
    )
    return Outcome(
        entry.key,
        entry.id,
        entry.plan.uid,
        entry.id,
        entry.reply,
        replay_entry=entry.replay_entry,
        dead_letter=dead_letter,
    )


class _Outputs(Struct, frozen=True, array_like=True):
    """The contents of an inbox row. Only calls have an answer."""

    id: str
    published: int
    results: list[int]
    messages: list[SwarmMessage]
    answer: bytes = b""
    # Whether it has also the messages that the entry has.
    is_whole: bool = False


class _Answer(Struct, frozen=True, array_like=True):
    """The reply that a store keeps for an idempotency key. Only calls have an answer and digest.

    `results` has the number, swarm and envelope of each.
    """

    id: str
    results: list[tuple[int, SwarmName, bytes]]
    answer: bytes = b""
    call_digest: int = 0
    public: list[str] = []
    silent: tuple[str, ...] = ()


_ERASED = error_answer(REFUSED, "the answer to this call was erased; call again with a new key")
_from_answer = msgspec.msgpack.Decoder(_Answer).decode
_to_msgpack = msgspec.msgpack.Encoder().encode
_from_msgpack = msgspec.msgpack.Decoder(_Outputs).decode


def _find_swarm(name: SwarmName) -> SwarmName:
    """Read the names of public swarms in rows of earlier versions, such as `{3}news`."""
    if not isinstance(name, str) or not name.startswith("{"):
        return name
    hop, _, swarm = name[1:].partition("}")
    return PublicSwarm(swarm, int(hop))


class PublicMessageLimit:
    """Counts the messages on public swarms by the input that started each chain.

    Two pipelines that answer each other and themselves double the messages with each hop, so the
    hop limit alone does not bound them. Each worker counts only its own pipelines, from the start
    of its process. The event loop changes the counts; database threads read them.
    """

    # Inputs that are remembered, the latest.
    MOST_REMEMBERED = 10_000

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        # By pipeline and id of an input that continues later: the origin of its chain.
        self._origins: dict[str, str] = {}

    def count_for(self, work: Input) -> int:
        """Return how many public messages the origin of this input has led to."""
        return self._counts.get(self._origin(work.origin, work.plan.uid, work.root or work.id), 0)

    def add(self, outcome: Outcome, count: int) -> str:
        """Count public messages of an outcome. Return the origin of its chain."""
        origin = self._origin(outcome.origin, outcome.uid, outcome.root)
        if count:
            self._counts[origin] = self._counts.pop(origin, 0) + count
            self._forget_oldest(self._counts)
        if outcome.origin and (outcome.continuations or outcome.delayed):
            self._origins[f"{outcome.uid}/{outcome.root}"] = origin
            self._forget_oldest(self._origins)
        return origin

    def _origin(self, origin: str, uid: str, root: str) -> str:
        own = f"{uid}/{root}"
        return origin or self._origins.get(own, own)

    def _forget_oldest(self, remembered: dict[str, int] | dict[str, str]) -> None:
        if len(remembered) > self.MOST_REMEMBERED:
            del remembered[next(iter(remembered))]
