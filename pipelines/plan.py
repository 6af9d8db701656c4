"""A checked bundle, compiled for routing: who hears what is said on a swarm."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from memrelay.blocks.contract import Agent, BlockArgs, Handle
from memrelay.blocks.memory_args import home_of
from memrelay.blocks.patterns import PatternSet
from memrelay.pipelines.bundle import accepts
from memrelay.pipelines.check import CheckedAgent, CheckedBundle

RELAY = (
    "relay"  # the store of a pipeline without memory blocks, for what waits and for what was done
)


@dataclass(frozen=True, slots=True)
class PlannedAgent:
    """An agent as a message meets it."""

    agent: Agent
    handle: Handle
    args: BlockArgs
    store: str  # memory_id of the store that its block works on, "" for none
    send_swarm: str  # "" where what it answers is not published on a private swarm
    public_swarm: str = (
        ""  # the public swarm on which what it answers is published, "" where it is not
    )

    def wants(self, text: str) -> bool:
        """Whether its block takes this text; an `Audience` asks for all of a swarm's at once."""
        selector = self.args.selector
        return (
            selector is None or (selector.pattern.capture(text, 0) is not None) != selector.invert
        )


@dataclass(frozen=True, slots=True)
class Voice:
    """An agent that says what comes to it from outside, such as a chat's user."""

    agent: Agent
    send_swarm: str


@dataclass(frozen=True, slots=True)
class Timer:
    """An agent whose block is called at each interval, whatever is said."""

    agent: Agent
    interval_ms: int


class Audience:
    """The stations on one swarm that accept one sender. Their patterns are matched together.

    Where nobody is `choosy` all `stations` hear, else those that `of` tells.
    """

    def __init__(self, stations: Sequence[PlannedAgent]) -> None:
        """`stations` in the order of the bundle, which is the order in which they hear."""
        self.stations = tuple(stations)
        selectors = [
            (at, selector)
            for at, station in enumerate(stations)
            if (selector := station.args.selector) is not None
        ]
        self._choosy = [at for at, _ in selectors]
        self.choosy = bool(selectors)  # whether anybody chooses by the text
        self._patterns = PatternSet([selector.pattern for _, selector in selectors])
        self._inverted = frozenset(
            place for place, (_, selector) in enumerate(selectors) if selector.invert
        )
        self._others = sorted(set(range(len(self.stations))) - set(self._choosy))
        self._alone = [
            self.stations[at : at + 1] for at in self._choosy
        ]  # what most texts lead to: one command

    def of(self, text: str) -> Sequence[PlannedAgent]:
        """The stations that want this text."""
        places: Sequence[int] = self._patterns.matching(text)
        if self._inverted:
            places = tuple(self._inverted.symmetric_difference(places))
        if not self._others and len(places) < 2:
            return self._alone[places[0]] if places else ()
        return [
            self.stations[at]
            for at in sorted([*self._others, *[self._choosy[place] for place in places]])
        ]


NOBODY = Audience([])


class Audiences(dict[tuple[str, str], Audience]):
    """By swarm and sender: who hears what that sender says there. Each is made when it is asked for
    first."""

    def __init__(
        self,
        bundle: CheckedBundle,
        listening: Sequence[CheckedAgent],
        stations: Mapping[str, PlannedAgent],
    ) -> None:
        """`listening` are the agents with a station, and `stations` theirs, by alias."""
        names = [name.removeprefix("!") for agent in listening for name in agent.accepts]
        self._named = {*names, *(agent.agent.name for agent in bundle.agents)}
        self._swarms, self._listening, self._stations = bundle.swarms, listening, stations

    def __missing__(self, asked: tuple[str, str]) -> Audience:
        """One that nobody asked for yet, or of a sender whom nobody names: these are all alike, and
        without number."""
        swarm, sender = asked
        known = (swarm, sender if sender in self._named else "")
        audience = self.get(known)
        if audience is None:
            if swarm not in self._swarms:
                return NOBODY
            audience = self[known] = self._audience(swarm, sender)
        return audience

    def _audience(self, swarm: str, sender: str) -> Audience:
        return Audience(
            [
                self._stations[agent.agent.alias]
                for agent in self._listening
                if agent.rec_swarm == swarm and accepts(agent.accepts, sender)
            ]
        )


class Plan:
    """One version of one pipeline."""

    def __init__(self, bundle: CheckedBundle) -> None:
        """Compiles; costs about a millisecond per pattern."""
        self.uid, self.name, self.hash = bundle.uid, bundle.name, bundle.hash
        self.public = frozenset(bundle.public)  # the names of its public swarms
        self._stations = {
            agent.agent.alias: station
            for agent in bundle.agents
            if (station := _station(agent, self.public)) is not None
        }
        self.timers = tuple(
            Timer(agent.agent, agent.interval_ms)
            for agent in bundle.agents
            if agent.interval_ms and agent.calls
        )
        self._voices = {
            agent.agent.alias: Voice(agent.agent, agent.send_swarm)
            for agent in bundle.agents
            if agent.is_voice
        }
        self._listening = [agent for agent in bundle.agents if agent.agent.alias in self._stations]
        self.swarms = bundle.swarms
        self.audiences = Audiences(bundle, self._listening, self._stations)
        self.private_names = {
            swarm.encode(): swarm for swarm in self.swarms if swarm not in self.public
        }
        self.hears_public = self.public & {agent.rec_swarm for agent in self._listening}
        stores = dict.fromkeys(
            station.store for station in self._stations.values() if station.store
        )
        self.languages = (
            bundle.languages
        )  # of stores, by memory_id; what is not there has that of all
        self.embedded_stores = frozenset(
            station.store for station in self._stations.values() if station.args.embeds
        )
        self.stores = tuple(stores) or (f"instances/{self.uid}/{RELAY}",)
        self.home = home_of(
            self.uid
        )  # of named memories; it is there from the first call that needs it
        self.every_store = tuple(dict.fromkeys((*self.stores, self.home)))

    def station(self, alias: str) -> PlannedAgent | None:
        """The station of one agent."""
        return self._stations.get(alias)

    def voice(self, alias: str) -> Voice | None:
        """The agent of that alias, where it is one that says what others hand to it."""
        return self._voices.get(alias)

    def hears(self, alias: str) -> str:
        """The swarm that an agent with a station listens to; "" for none."""
        return next(agent.rec_swarm for agent in self._listening if agent.agent.alias == alias)


def _station(agent: CheckedAgent, public: Collection[str]) -> PlannedAgent | None:
    """None for an agent that is never called."""
    if not agent.calls or agent.block.handle is None:
        return None
    says_on = agent.send_swarm if agent.agent.publishes else ""
    says_in_public = says_on in public
    return PlannedAgent(
        agent.agent,
        agent.block.handle,
        agent.args,
        agent.args.store,
        "" if says_in_public else says_on,
        public_swarm=says_on if says_in_public else "",
    )
