"""The cascade of one input: its message, and every message that agents answer to it.

Relays run in memory and memory blocks inside the transaction of one store. A step that needs
another store becomes a continuation.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from memrelay.blocks.contract import Call, DeferredCall, Limits
from memrelay.bus.codec import encode, encode_kept
from memrelay.bus.keys import PublicSwarm
from memrelay.bus.message import ENVELOPE_FACTOR, Message
from memrelay.memory.admission import Stops, run_stoppable
from memrelay.memory.engine.inbox import Pending
from memrelay.memory.engine.origins import TURN
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.errors import PolicyStop, Refused, StoppedTooLate
from memrelay.memory.records.ids import derive_guid, input_time_ms
from memrelay.pipelines.flow import Flow
from memrelay.pipelines.plan import Plan, PlannedAgent, Rerouted
from memrelay.pipelines.secret_references import NO_SECRETS, SecretResolver
from memrelay.worker.deferred_calls.execute import resume
from memrelay.worker.deferred_calls.stored import pack_request
from memrelay.worker.errors import (
    AgentRemoved,
    BlockFault,
    TooManyBytes,
    TooManyHops,
    TooManyMessages,
)
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.calls import open_second_store
from memrelay.worker.run.flow_gate import FlowGate, Parked
from memrelay.worker.run.inputs import STEP_MARK, Input, Published
from memrelay.worker.run.outcome import Outcome, PublicMessageLimit, new_outcome
from memrelay.worker.run.policies import answer_stopped, redact_message
from memrelay.worker.timings import Lap
from memrelay.worker.waiting import system_time_ms

if TYPE_CHECKING:
    from memrelay.memory.engine.open_for_read import ReadOnlyStore

PUBLIC_NEXT = Published.PUBLIC_NEXT
NOTHING_FOUND: dict[str, str] = {}


class Cascade:
    """Runs inputs one after the other, without a commit. After a rollback they can run again.

    `stores` belong to the calling thread. The first message for a store begins its transaction.
    `wf_flow` counts by `clock`, in Unix ms.
    """

    def __init__(
        self,
        stores: OpenStores,
        limits: WorkerLimits,
        public_limit: PublicMessageLimit,
        secrets: SecretResolver = NO_SECRETS,
        clock: Callable[[], int] = system_time_ms,
    ) -> None:
        self._stores, self._public_limit, self._secrets = stores, public_limit, secrets
        self._clock = clock
        self._bounds, self._limits = Limits(limits.message_bytes), limits
        self._max_hops = limits.max_hops
        self._max_bytes = max(limits.cascade_bytes, 4 * limits.message_bytes)
        # So many messages never exceed a limit.
        longest = ENVELOPE_FACTOR * limits.message_bytes
        self._unchecked = min(limits.max_cascade, int(self._max_bytes / longest))
        # The stores with an open transaction.
        self.touched: dict[str, Store] = {}
        self.stops: Stops = {}
        # Whether one of them has policies. They see the records of an input that runs alone when
        # they are written.
        self.has_policies = self.is_alone = False
        # State of the current input. The queue has the swarm on which agents of this pipeline
        # receive a message; "" for none.
        self._work: Input
        self._now_ms, self._guids = 0, 0
        self._queue: list[tuple[str, Message, int]] = []
        # Values that policies found in it, with their replacements.
        self._findings: dict[str, str] = {}
        # The number of its calls of blocks, and the refusals of calls that had changed something.
        self._calls = 0
        self._refusals: dict[tuple[str, int], Refused] = {}
        self.outcome: Outcome
        # When blocks ended, for a batch that notes it.
        self.laps: list[Lap] | None = None
        # The agent whose block runs, or has raised an exception.
        self.calling: PlannedAgent | None = None

    def run(self, work: Input) -> Outcome:
        """Run an input to its end. Raises CascadeFault, and whatever a block raises."""
        self._work, self._now_ms, self._guids = work, input_time_ms(work.id), 0
        self.outcome = outcome = new_outcome(work)
        queue = self._queue = []
        self._findings, self._calls = NOTHING_FOUND, 0
        if (laps := self.laps) is not None:
            laps.append((work.key, "", time.perf_counter()))
        if work.only_agent:
            self._deliver_to_one(work)
            if laps is not None:
                laps.append((work.key, work.only_agent, time.perf_counter()))
        else:
            if work.published is PUBLIC_NEXT:
                self._add_public(work.swarm, work.message, work.hop)
            else:
                self._publish(work.swarm, work.message, work.hop)
            outcome.published = work.published
        index, deliver = work.plan.subscribers, self._deliver
        for number, (swarm, message, hop) in enumerate(queue):
            subscribers = index[swarm, message.sender]
            selected = (
                subscribers.select(message.text)
                if subscribers.has_selectors
                else subscribers.agents
            )
            for subscriber in selected:
                deliver(subscriber, swarm, message, hop)
                if laps is not None:
                    laps.append((work.key, subscriber.agent.alias, time.perf_counter()))
            if not selected and (number or work.only_agent):
                outcome.results.append(number)
        return outcome

    def _deliver_to_one(self, work: Input) -> None:
        """Deliver the message of a webhook or continuation, which is not published itself."""
        subscriber = work.plan.subscriber(work.only_agent)
        if work.flow:
            subscriber = _pass_gate(subscriber, work, self._clock)
        if subscriber is not None and subscriber.wants(work.message.text):
            if work.got is not None:
                subscriber = replace(subscriber, handle=resume(subscriber, work.got))
            self._deliver(subscriber, work.swarm, work.message, work.hop)

    def _deliver(self, subscriber: PlannedAgent, swarm: str, message: Message, hop: int) -> None:
        agent, memory_id = subscriber.agent, subscriber.store
        tx: Any = None
        if memory_id:
            outcome = self.outcome
            if outcome.store and outcome.store != memory_id:
                # The step runs as its own input, in a transaction of its store.
                self._add_pending(subscriber, swarm, message, hop)
                return
            outcome.store, tx = memory_id, self.touched.get(memory_id) or self.begin(memory_id)
            work = self._work
            origin: tuple[str, ...]
            if work.got is None:
                origin = agent.name, work.message.sender, *work.via[:3], agent.alias, ""
            else:
                origin = _find_origin(work, subscriber)
            tx.records.set_actor(self._now_ms, agent.name, "", origin, work.id)
        call = Call(agent, message, self._now_ms, self._bounds, self, tx)
        self.calling = subscriber
        self._calls += 1
        last_change = 0 if tx is None else tx.records.versions.last_change
        try:
            if self._refusals:
                self._raise_known_refusal()
            if self.has_policies:
                answer = self._call_with_policies(call, subscriber)
            else:
                answer = subscriber.handle(call, subscriber.args)
        except Refused as refused:
            # run_stoppable rolls back what a policy stops.
            is_late = tx is not None and tx.records.versions.last_change != last_change
            if is_late and not isinstance(refused, PolicyStop):
                self._roll_back_refused(refused)
            answer = call.error(self._secrets.redact(str(refused)))
        except Rerouted as rerouted:
            self._deliver(rerouted.subscriber, swarm, message, hop)
            return
        # Outside of a block, these mean that a store cannot be used.
        except (OSError, UnicodeDecodeError) as error:
            raise BlockFault(error, self._secrets) from error
        self.calling = None
        if answer is None:
            return
        if answer.__class__ is not Message:
            if isinstance(answer, Flow):
                gate = FlowGate(answer, subscriber.block_handle, self._clock)
                gated = replace(subscriber, handle=gate.admit)  # type: ignore[arg-type]
                self._deliver(gated, swarm, message, hop)
            elif isinstance(answer, Parked):
                self._park(subscriber, swarm, message, hop, answer)
            else:
                # A batch has made a message of several.
                self._keep_deferred_call(subscriber, swarm, call.message, hop, answer)
            return
        if subscriber.send_swarm:
            self._publish(subscriber.send_swarm, answer, hop + 1)
        elif subscriber.public_swarm:
            self._publish_in_public(subscriber.public_swarm, answer, hop + 1)
        else:
            self.outcome.silent += (agent.alias,)

    def _raise_known_refusal(self) -> None:
        """Raise Refused if the call of the block was refused after a write before a rollback."""
        refused = self._refusals.get((self._work.key, self._calls))
        if refused is not None:
            raise refused

    def _roll_back_refused(self, refused: Refused) -> NoReturn:
        """Let the input run again with the refusal known, so that no write of the block stays."""
        self._refusals[self._work.key, self._calls] = refused.with_traceback(None)
        raise StoppedTooLate from refused

    def _call_with_policies(self, call: Call, subscriber: PlannedAgent) -> Any:
        """Call a block on a store with policies. Return its answer, or that of a stopped write.

        Raises PolicyStop for a refused write, and StoppedTooLate.
        """
        if self._findings:
            call.message = redact_message(call.message, self._findings)
        if call.tx is None or not call.tx.records.path.admit:
            return subscriber.handle(call, subscriber.args)
        handle = partial(_handle_whole, call, subscriber)
        answer = run_stoppable(self.stops, (self._work.key, self._calls), call.tx, handle)
        self._findings = call.tx.records.findings
        if isinstance(answer, PolicyStop):
            return answer_stopped(answer, call)
        return answer

    def _publish(self, swarm: str, message: Message, hop: int) -> None:
        outcome = self.outcome
        messages = outcome.messages
        if hop > self._max_hops or len(messages) > self._unchecked:
            self._check_limits(message, hop)
        data = encode(message)
        outcome.size += len(data)
        messages.append((swarm, data))
        self._queue.append((swarm, message, hop))

    def _publish_in_public(self, swarm: str, message: Message, hop: int) -> None:
        """Publish an answer on a public swarm. Agents receive it as a new input, also those of
        this pipeline.

        The inbox row ensures that only this version of the bundle publishes it.
        """
        if self._public_limit.count_for(self._work) >= self._limits.max_cascade:
            raise TooManyMessages(self._limits.max_cascade)
        self._work.needs_inbox_row = True
        self._add_public(swarm, message, hop)

    def _add_public(self, swarm: str, message: Message, hop: int) -> None:
        outcome = self.outcome
        if hop > self._max_hops or len(outcome.messages) > self._unchecked:
            self._check_limits(message, hop)
        data = encode(message)
        outcome.size += len(data)
        outcome.messages.append((PublicSwarm(swarm, hop), data))
        self._queue.append(("", message, hop))

    def transaction(self, memory_id: str) -> Store:
        """Return a store with an open transaction."""
        return self.touched.get(memory_id) or self.begin(memory_id)

    def begin(self, memory_id: str) -> Store:
        """Open the transaction of a store that is not in `touched`."""
        store = self._stores.get(memory_id)
        store.begin()
        self.touched[memory_id] = store
        if store.records.path.admit:
            self.has_policies = True
            if not self.is_alone:
                store.records.defer_admission()
        return store

    def open_for_read(self, memory_id: str) -> "ReadOnlyStore":
        """Return another store of the pipeline for the block that runs. Raises Refused."""
        actor = self.calling.agent.name if self.calling is not None else ""
        return self.open_second_store(self._work.plan, memory_id, (self._now_ms, actor))

    def open_second_store(
        self, plan: Plan, memory_id: str, act: tuple[int, str]
    ) -> "ReadOnlyStore":
        """Return another store of a pipeline for reads. Raises Refused."""
        return open_second_store(self._stores, plan, memory_id, act, self.touched)

    def _keep_deferred_call(
        self, subscriber: PlannedAgent, swarm: str, message: Message, hop: int, answer: object
    ) -> None:
        """Keep a request in the store of the block, or in the first one. The block is called again
        with the result.
        """
        if not isinstance(answer, DeferredCall):
            raise TypeError(
                f"the block returned {type(answer).__name__}: return call.reply(text) or None"
            )
        if subscriber.executor is None:
            raise TypeError(
                f"the block {subscriber.block} returned a DeferredCall and names no executor: "
                f'write @block("{subscriber.block}", ..., deferred_call="module:function")'
            )
        request, outcome = pack_request(answer, self._bounds.message_bytes), self.outcome
        if not outcome.store:
            outcome.store = self._work.plan.stores[0]
        if outcome.store not in self.touched:
            self.begin(outcome.store)
        self._add_pending(subscriber, swarm, message, hop, request)

    def _add_pending(
        self,
        subscriber: PlannedAgent,
        swarm: str,
        message: Message,
        hop: int,
        request: bytes | None = None,
    ) -> None:
        work, outcome = self._work, self.outcome
        producer_id = work.producer_id or work.step_of
        pending = Pending(
            self.next_deferred_call_id(),
            work.plan.uid,
            work.plan.hash,
            subscriber.agent.alias,
            swarm,
            hop,
            encode_kept(message, work.traceparent, work.via),
            outcome.root,
            work.reply,
            self._now_ms,
            producer=STEP_MARK + producer_id if producer_id else "",
            request=request,
        )
        self.touched[outcome.store].pending.add(pending)
        outcome.continuations += (pending,)

    def _park(
        self, subscriber: PlannedAgent, swarm: str, message: Message, hop: int, parked: Parked
    ) -> None:
        """Keep a message that waits because of `wf_flow`. For a client, its input has ended."""
        outcome, uid = self.outcome, self._work.plan.uid
        pending = Pending(
            self.next_deferred_call_id(),
            uid,
            self._work.plan.hash,
            subscriber.agent.alias,
            swarm,
            hop,
            encode_kept(message, via=self._work.via),
            outcome.root,
            "",
            parked.due,
            flow=parked.key,
        )
        self.touched[outcome.store].pending.add(pending)
        outcome.continuations += (pending,)

    def _check_limits(self, message: Message, hop: int) -> None:
        if hop > self._max_hops:
            raise TooManyHops(self._max_hops, message.sender)
        if len(self.outcome.messages) > self._limits.max_cascade:
            raise TooManyMessages(self._limits.max_cascade)
        if self.outcome.size > self._max_bytes:
            raise TooManyBytes(self._max_bytes)

    def secret(self, reference: str) -> str:
        """Return a secret that the operator has listed for blocks. Raises LookupError."""
        return self._secrets.read_for_block(reference)

    def next_deferred_call_id(self) -> str:
        """Return the id of the next continuation. A replay returns the same one."""
        work, outcome = self._work, self.outcome
        return f"{work.plan.uid}/{work.id}.{len(outcome.messages)}+{len(outcome.continuations)}"

    @property
    def input_id(self) -> str:
        """Return the id of the first input of the cascade."""
        return self._work.root or self._work.id

    def new_guid(self, alias: str) -> str:
        """Return the next guid for an agent. A replay returns the same ones."""
        self._guids += 1
        return derive_guid(self._work.plan.uid, self._work.id, alias, self._guids)


def _pass_gate(
    subscriber: PlannedAgent | None, work: Input, clock: Callable[[], int]
) -> PlannedAgent:
    """Return the agent whose block gets a message that has waited. Raises AgentRemoved."""
    if subscriber is None:
        raise AgentRemoved(work.only_agent)
    if subscriber.flow is None:
        return subscriber
    gate = FlowGate(subscriber.flow, subscriber.block_handle, clock)
    return replace(subscriber, handle=gate.release(work.flow, work.key))


def _find_origin(work: Input, subscriber: PlannedAgent) -> tuple[str, ...]:
    """Return the origin of what an agent writes after the deferred call that it has waited for.

    The turn of a model is one origin.
    """
    agent, (profile, verdict, key, *_) = subscriber.agent, work.via
    model = getattr(subscriber.args, "model", "") if agent.alias == work.only_agent else ""
    profile = f"{TURN}{work.id}" if model else profile
    return agent.name, work.message.sender, profile, verdict, key, agent.alias, model


def _handle_whole(call: Call, subscriber: PlannedAgent) -> Any:
    """Call a block and return its answer. Raises PolicyStop, also for one that the block has caught
    if a part of the stopped operation would stay.
    """
    answer = subscriber.handle(call, subscriber.args)
    if call.tx.records.late_stop is not None:
        raise call.tx.records.late_stop
    return answer
