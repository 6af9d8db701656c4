"""The cascade of one input: relays in memory, memory blocks inside one store's transaction, what
leads further kept."""

from memrelay.blocks.contract import Call, Limits
from memrelay.bus.codec import encode
from memrelay.bus.message import Message
from memrelay.bus.public_swarms import in_public
from memrelay.memory.errors import Refused
from memrelay.memory.records.ids import derive_guid, time_of
from memrelay.memory.sqlite.inbox import Pending
from memrelay.memory.sqlite.store import Store
from memrelay.memory.stores import OpenStores
from memrelay.pipelines.plan import PlannedAgent
from memrelay.worker.errors import TooDeep, TooMany, TooMuch
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.inputs import Input
from memrelay.worker.run.outcome import Outcome, PublicMessageLimit, outcome_of


class Cascade:
    """Runs inputs to their ends, one after the other. Nothing is committed here, so after a
    rollback they may run again."""

    def __init__(
        self, stores: OpenStores, limits: WorkerLimits, spread: PublicMessageLimit
    ) -> None:
        """`stores` belong to this thread; a transaction is begun with the first store that an input
        needs."""
        self._stores, self._spread = stores, spread
        self._bounds, self._limits, self._max_hops = (
            Limits(limits.message_bytes),
            limits,
            limits.max_hops,
        )
        self._most_bytes = max(limits.cascade_bytes, 4 * limits.message_bytes)
        self._few = min(
            limits.max_cascade, self._most_bytes // limits.message_bytes
        )  # that are never too much
        self.touched: dict[str, Store] = {}  # stores whose transaction is open
        # Of the input that runs:
        self._work: Input
        self._now_ms, self._guids = 0, 0
        self._queue: list[tuple[str, Message, int]] = []
        self.outcome: Outcome

    def run(self, work: Input) -> Outcome:
        """Everything that the input leads to. Raises CascadeFault; what a block raises comes
        through."""
        self._work, self._now_ms, self._guids = work, time_of(work.id), 0
        self.outcome = outcome = outcome_of(work)
        queue = self._queue = []
        if work.only:
            self._resume(work)
        else:
            self._say(work.swarm, work.message, work.hop)
            outcome.heard = work.heard
        audiences, deliver = work.plan.audiences, self._deliver
        for at, (swarm, message, hop) in enumerate(queue):
            audience = audiences[swarm, message.sender]
            stations = audience.of(message.text) if audience.choosy else audience.stations
            for station in stations:
                deliver(station, swarm, message, hop)
            if not stations and (at or work.only):
                outcome.results.append(at)
        return outcome

    def _resume(self, work: Input) -> None:
        """One agent alone is to hear it: what a webhook brought, or a continuation, whose message
        was said before."""
        station = work.plan.station(work.only)
        if station is not None and station.wants(work.message.text):
            self._deliver(station, work.swarm, work.message, work.hop)

    def _deliver(self, station: PlannedAgent, swarm: str, message: Message, hop: int) -> None:
        agent, memory_id, tx = station.agent, station.store, None
        if memory_id:
            outcome = self.outcome
            if outcome.store and outcome.store != memory_id:
                self._continue_elsewhere(station, swarm, message, hop)
                return
            outcome.store, tx = memory_id, self.touched.get(memory_id) or self.begin(memory_id)
            tx.records.acts(self._now_ms, agent.name)
        call = Call(agent, message, self._now_ms, self._bounds, self, tx)
        try:
            answer = station.handle(call, station.args)
        except Refused as refused:
            answer = call.error(str(refused))
        if answer is None:
            return
        if answer.__class__ is not Message:
            raise TypeError(
                f"the block answered with {type(answer).__name__}: answer with call.reply(text), or with None"
            )
        if station.send_swarm:
            self._say(station.send_swarm, answer, hop + 1)
        elif station.public_swarm:
            self._say_in_public(station.public_swarm, answer, hop + 1)
        else:
            self.outcome.silent += (agent.alias,)

    def _say(self, swarm: str, message: Message, hop: int) -> None:
        outcome = self.outcome
        said = outcome.said
        if hop > self._max_hops or len(said) > self._few:
            self._look_how_far(message, hop)
        data = encode(message)
        outcome.size += len(data)
        said.append((swarm, data))
        self._queue.append((swarm, message, hop))

    def _say_in_public(self, swarm: str, message: Message, hop: int) -> None:
        """It comes to everyone who listens there, this pipeline too, through their inputs: here the
        cascade ends.

        It is kept, whatever was touched, so that it is said under this version of the bundle alone.
        """
        if self._spread.of(self._work) >= self._limits.max_cascade:
            raise TooMany(self._limits.max_cascade)
        self._work.kept = True
        self._say(in_public(swarm, hop), message, hop)

    def begin(self, memory_id: str) -> Store:
        """A store that is not in `touched`, with its transaction open."""
        store = self._stores.get(memory_id)
        store.begin()
        self.touched[memory_id] = store
        return store

    def _continue_elsewhere(
        self, station: PlannedAgent, swarm: str, message: Message, hop: int
    ) -> None:
        """Another store's step: kept in this one's transaction, and run as an input of its own."""
        work, outcome = self._work, self.outcome
        ident = f"{work.key}.{len(outcome.said)}+{len(outcome.continuations)}"
        pending = Pending(
            ident,
            work.plan.uid,
            work.plan.hash,
            station.agent.alias,
            swarm,
            hop,
            encode(message),
            outcome.root,
            work.reply,
            self._now_ms,
        )
        self.touched[outcome.store].pending.add(pending)
        outcome.continuations += (pending,)

    def _look_how_far(self, message: Message, hop: int) -> None:
        """Raises CascadeFault where it is too far."""
        if hop > self._max_hops:
            raise TooDeep(self._max_hops, message.sender)
        if len(self.outcome.said) > self._limits.max_cascade:
            raise TooMany(self._limits.max_cascade)
        if self.outcome.size > self._most_bytes:
            raise TooMuch(self._most_bytes)

    def new_guid(self, alias: str) -> str:
        """The next guid of an agent: the same whenever this input is run."""
        self._guids += 1
        return derive_guid(self._work.plan.uid, self._work.id, alias, self._guids)
