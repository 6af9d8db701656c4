"""A checked bundle, compiled for routing: the agents that receive a message of a swarm.

Compiling costs about a millisecond per pattern.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

from memrelay.blocks.contract import Agent, AsyncBlock, BlockArgs, Call, Executor, Handle
from memrelay.blocks.patterns import PatternSet
from memrelay.bus.message import Message, envelope_limit
from memrelay.memory.engine.memory_id import BUILT_IN_STORES, built_in_store
from memrelay.pipelines.bundle import accepts
from memrelay.pipelines.check import CheckedAgent, CheckedBundle
from memrelay.pipelines.cron import CronSchedule
from memrelay.pipelines.flow import Flow
from memrelay.pipelines.message_checks import MessageCheck, SchemaMismatch

# The store of a pipeline without memory blocks: for pending messages and the inbox.
RELAY = "relay"


@dataclass(frozen=True, slots=True)
class PlannedAgent:
    """An agent that calls a block.

    `store` is the memory_id of the block's store, or "". The results are published on
    `send_swarm`, a private swarm, or on `public_swarm`; both are "" if they are not published. With
    `flow`, `handle` is `Flow.hold`, and it has a store even if the block needs none.
    """

    agent: Agent
    handle: Handle
    args: BlockArgs
    store: str
    send_swarm: str
    public_swarm: str = ""
    block: str = ""  # its name
    executor: Executor | str | AsyncBlock | None = None  # of its deferred calls
    flow: Flow | None = None
    limited: Handle | None = None  # the function of the block, with `flow`
    receipts: bool = False  # whether its reads leave receipts

    @property
    def block_handle(self) -> Handle:
        """Return the function of the block."""
        return self.limited or self.handle

    def wants(self, text: str) -> bool:
        """Return whether the block accepts the text. `Subscribers` matches all agents at once."""
        selector = self.args.selector
        return (
            selector is None or (selector.pattern.capture(text, 0) is not None) != selector.invert
        )


@dataclass(frozen=True, slots=True)
class Publisher:
    """An agent that publishes messages from outside, such as those of a chat's user."""

    agent: Agent
    send_swarm: str


@dataclass(frozen=True, slots=True)
class Timer:
    """An agent whose block is called at each interval, or at each slot of a schedule.

    If `catches_up`, the last slot is served however late; otherwise only within its minute.
    """

    agent: Agent
    interval_ms: int
    schedule: CronSchedule | None = None
    catches_up: bool = False


def find_first_store(uid: str, stores: Iterable[str]) -> str:
    """Return the store of an agent whose block needs none. `stores` are those of all agents."""
    return next(filter(None, stores), f"instances/{uid}/{RELAY}")


class Subscribers:
    """The agents on one swarm that accept one sender, in the order of the bundle.

    If `has_selectors` is false, all `agents` receive every text. Otherwise `select` matches the
    patterns of all of them are matched together.
    """

    def __init__(self, agents: Sequence[PlannedAgent]) -> None:
        self.agents = tuple(agents)
        selectors = [
            (at, selector)
            for at, agent in enumerate(agents)
            if (selector := agent.args.selector) is not None
        ]
        self._selecting = [at for at, _ in selectors]  # indexes of the agents with a selector
        self.has_selectors = bool(selectors)
        self._patterns = PatternSet([selector.pattern for _, selector in selectors])
        self._inverted = frozenset(
            index for index, (_, selector) in enumerate(selectors) if selector.invert
        )
        self._others = sorted(set(range(len(self.agents))) - set(self._selecting))
        # The usual result: one agent, for one command.
        self._alone = [self.agents[at : at + 1] for at in self._selecting]

    def select(self, text: str) -> Sequence[PlannedAgent]:
        matching: Sequence[int] = self._patterns.matching(text)
        if self._inverted:
            matching = tuple(self._inverted.symmetric_difference(matching))
        if not self._others and len(matching) < 2:
            return self._alone[matching[0]] if matching else ()
        agent_indexes = sorted([*self._others, *[self._selecting[index] for index in matching]])
        return [self.agents[number] for number in agent_indexes]


NO_SUBSCRIBERS = Subscribers([])


class Rerouted(Exception):
    """The message that an agent got is for another one."""

    def __init__(self, subscriber: PlannedAgent) -> None:
        super().__init__(subscriber)
        self.subscriber = subscriber


@dataclass(frozen=True, slots=True)
class _Guard:
    """Checks the texts for one swarm or agent. `receiver` publishes those that break the schema."""

    check: MessageCheck
    place: str
    receiver: PlannedAgent | None

    def find_receiver(self, text: str) -> PlannedAgent | None:
        """Return the agent that gets an invalid text, None for a valid one.

        Raises SchemaMismatch.
        """
        fault = self.check.schema.find_fault(text)
        if not fault:
            return None
        if self.receiver is None:
            raise SchemaMismatch(f"the schema of the {self.place} refuses the message: {fault}")
        return replace(self.receiver, handle=partial(_mark, fault))

    def wrap(self, handle: Handle) -> Handle:
        """Return the block with a check of the text before each call."""

        def call_checked(call: Call, args: BlockArgs) -> object:
            receiver = self.find_receiver(call.text)
            if receiver is not None:
                raise Rerouted(receiver)
            return handle(call, args)

        return call_checked  # type: ignore[return-value]


def _mark(fault: str, call: Call, _args: BlockArgs) -> Message:
    """Return the message of the same sender with the field `mismatch`, if it is not too long."""
    message = call.message.with_fields(call.message.sender, {"mismatch": fault})
    is_short = message.envelope_bytes <= envelope_limit(call.limits.message_bytes)
    return message if is_short else call.message


class CheckedSubscribers(Subscribers):
    """The agents on a swarm with a schema. No agent gets a text that breaks it."""

    def __init__(self, agents: Sequence[PlannedAgent], guard: _Guard) -> None:
        super().__init__(agents)
        self._guard, self._selects = guard, self.has_selectors
        self.has_selectors = True

    def select(self, text: str) -> Sequence[PlannedAgent]:
        receiver = self._guard.find_receiver(text)
        if receiver is not None:
            return [receiver]
        return super().select(text) if self._selects else self.agents


class SubscriberIndex(dict[tuple[str, str], Subscribers]):
    """The subscribers of each (swarm, sender), made at its first use.

    `listening` are the agents that call a block, and `planned` contains them by alias.
    """

    def __init__(
        self,
        bundle: CheckedBundle,
        listening: Sequence[CheckedAgent],
        planned: Mapping[str, PlannedAgent],
    ) -> None:
        names = [name.removeprefix("!") for agent in listening for name in agent.accepts]
        self._named = {*names, *(agent.agent.name for agent in bundle.agents)}
        self._swarms, self._listening, self._planned = bundle.swarms, listening, planned
        self._guards = {
            swarm: _Guard(check, f"swarm {swarm}", _make_receiver(bundle, check, swarm))
            for swarm, check in bundle.message_checks.items()
        }

    def __missing__(self, route: tuple[str, str]) -> Subscribers:
        swarm, sender = route
        # All senders that no agent names have the same subscribers. Their number is unlimited.
        cache_key = (swarm, sender if sender in self._named else "")
        subscribers = self.get(cache_key)
        if subscribers is None:
            if swarm not in self._swarms:
                return NO_SUBSCRIBERS
            agents = [
                self._planned[agent.agent.alias]
                for agent in self._listening
                if agent.rec_swarm == swarm and accepts(agent.accepts, sender)
            ]
            guard = self._guards.get(swarm)
            subscribers = (
                Subscribers(agents) if guard is None else CheckedSubscribers(agents, guard)
            )
            self[cache_key] = subscribers
        return subscribers


class Plan:
    """One version of one pipeline.

    - `public`: names of its public swarms; `listens_in_public`: those that an agent listens on
    - `private_names`: names of its other swarms, by their bytes
    - `stores`: memory_ids of its blocks; the first is the default of an operation
    - `built_in_stores`: memory_ids of the built-in stores by name; the first call creates each
    - `vector_stores`: built-in stores whose records are all searched by meaning, with every write
    - `all_stores`: `stores` and all `built_in_stores`
    - `event_stores`: those whose changes go to its endpoints: all but stores under the path of
      another pipeline, which has its own endpoints
    - `embedded_stores`: stores with vectors
    - `programs`: names under which its agents write
    - `languages`: of stores that declare one, by memory_id; `timezone`: of queries
    - `inputs_days`: for how long the stores keep inputs; 0 for none
    - `receipts_days`: for how long they keep receipts; `only_digests`: not the questions;
      `receipt_stores`: those whose blocks leave receipts
    - `review_days`: for how long writes wait for review
    - `endpoints`: those that the bundle declares
    - `policies`, `views`: those that the bundle declares, by memory_id
    - `deployed_at_ms`: when it was deployed last, for a plan in service
    - `feeds`: stores with a change feed: all `built_in_stores`, and those that declare one
    """

    def __init__(self, bundle: CheckedBundle) -> None:
        self.uid, self.name, self.hash = bundle.uid, bundle.name, bundle.hash
        self.deployed_at_ms = 0
        self.programs = frozenset(
            one.agent.username for one in bundle.agents if not one.is_publisher
        )
        self.swarms, self.public = bundle.swarms, frozenset(bundle.public)
        self.private_names = {
            swarm.encode(): swarm for swarm in self.swarms if swarm not in self.public
        }
        self.timers = tuple(
            Timer(agent.agent, agent.interval_ms, agent.schedule, agent.catches_up)
            for agent in bundle.agents
            if agent.calls and (agent.interval_ms or agent.schedule)
        )
        self._publishers = {
            agent.agent.alias: Publisher(agent.agent, agent.send_swarm)
            for agent in bundle.agents
            if agent.is_publisher
        }
        self._planned = {
            agent.agent.alias: planned
            for agent in bundle.agents
            if (planned := _planned_agent(agent, bundle)) is not None
        }
        self._set_stores(bundle)
        self._listening = [agent for agent in bundle.agents if agent.agent.alias in self._planned]
        self.subscribers = SubscriberIndex(bundle, self._listening, self._planned)
        self.listens_in_public = self.public & {agent.rec_swarm for agent in self._listening}

    def _set_stores(self, bundle: CheckedBundle) -> None:
        planned = self._planned.values()
        stores = dict.fromkeys(agent.store for agent in planned if agent.store)
        self.stores = tuple(stores) or (find_first_store(self.uid, ()),)
        self._planned |= {
            alias: replace(one, store=self.stores[0])
            for alias, one in self._planned.items()
            if one.flow is not None and not one.store
        }
        self.built_in_stores = {store: built_in_store(self.uid, store) for store in BUILT_IN_STORES}
        self.vector_stores = {
            name
            for store, name in self.built_in_stores.items()
            if store not in ("memories", "recipes", "endpoints")
        }
        self.all_stores = tuple(dict.fromkeys((*self.stores, *self.built_in_stores.values())))
        self.event_stores = tuple(
            name
            for name in self.all_stores
            if name.startswith(f"instances/{self.uid}/") or not name.startswith("instances/")
        )
        searched = {agent.store for agent in planned if agent.args.embeds}
        self.embedded_stores = frozenset(searched | (bundle.embedded & set(self.all_stores)))
        self.languages, self.timezone = bundle.languages, bundle.timezone
        self.inputs_days, self.endpoints = bundle.inputs_days, bundle.endpoints
        self.review_days = bundle.review_days
        self.receipts_days, self.only_digests = bundle.receipts_days, bundle.only_digests
        self.receipt_stores = {agent.store for agent in planned if agent.receipts and agent.store}
        self.feeds = bundle.feeds | frozenset(self.built_in_stores.values())
        self.policies, self.views = bundle.policies, bundle.views

    def subscriber(self, alias: str) -> PlannedAgent | None:
        """Return the agent with that alias if it calls a block."""
        return self._planned.get(alias)

    def publisher(self, alias: str) -> Publisher | None:
        """Return the agent with that alias if it publishes messages from outside."""
        return self._publishers.get(alias)

    def input_swarm(self, alias: str) -> str:
        """Return the swarm on which an agent that calls a block listens, or ""."""
        return next(agent.rec_swarm for agent in self._listening if agent.agent.alias == alias)


def _make_receiver(bundle: CheckedBundle, check: MessageCheck, place: str) -> PlannedAgent | None:
    """Return the agent that publishes what breaks a schema on the swarm for it, if there is one."""
    swarm, is_public = check.on_mismatch, check.on_mismatch in bundle.public
    if not swarm:
        return None
    return PlannedAgent(
        Agent(bundle.uid, place, "", "", True),
        partial(_mark, ""),
        BlockArgs(),
        "",
        "" if is_public else swarm,
        public_swarm=swarm if is_public else "",
        block="schema",
    )


def _planned_agent(agent: CheckedAgent, bundle: CheckedBundle) -> PlannedAgent | None:
    """Return None for an agent that never calls a block."""
    if not agent.calls or agent.block.handle is None:
        return None
    swarm = agent.send_swarm if agent.agent.publishes else ""
    is_public = swarm in bundle.public
    block, flow, check = agent.block.handle, agent.flow, agent.message_check
    if agent.receipts and agent.args.store:
        # The operations of deferred calls leave theirs.
        receipts = import_module("memrelay.blocks.receipts")
        block = receipts.keep_receipts(block, only_digests=bundle.only_digests)
    handle: Any = block if flow is None else flow.hold
    if check is not None:
        alias = agent.agent.alias
        receiver = _make_receiver(bundle, check, alias)
        handle = _Guard(check, f"agent {alias}", receiver).wrap(handle)
    return PlannedAgent(
        agent.agent,
        handle,
        agent.args,
        agent.args.store,
        "" if is_public else swarm,
        public_swarm=swarm if is_public else "",
        block=agent.block.name,
        executor=agent.block.executor,
        flow=flow,
        limited=None if flow is None else block,
        receipts=agent.receipts,
    )
