"""Deduces which agent published each message of a cascade, and which message it answers.

A log does not contain these. The worker handles the messages of a cascade in their order. For each
it calls the agents that hear it, in the order of the bundle, and each answers at most once. So an
answer belongs to the first message that its agent hears and has not answered.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from memrelay.pipelines.bundle import accepts
from memrelay.pipelines.checked import CheckedAgent
from memrelay.web.trace.inputs import Place, parse_step


@dataclass(frozen=True, slots=True)
class Published:
    """A message of a log. `published_at_ms` is in Unix ms."""

    mid: str
    place: Place
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


# The position of a message in its cascade, and that of an agent in the bundle.
Turn = tuple[int, int]
BEFORE_ALL: Turn = (-1, -1)


def place_in_tree(messages: Iterable[Published], agents: Sequence[CheckedAgent]) -> list[Published]:
    """Return the messages of one entry in order, with parent, hop, agent and block."""
    cascades = defaultdict[str, list[Published]](list)
    for one in sorted(messages, key=lambda one: one.place.order):
        cascades[one.place.path].append(one)
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
        step = parse_step(message.place.path)
        base = "" if step is None else step.base
        if step is None:
            return self._answer(message, None, None)
        heard = [one for one in self._cascades.get(base, ()) if one.place.number < step.published]
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
                if one.place.number < step.published
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
                if (at, index) > after and _hears(agent, heard[at]):
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


def _hears(agent: CheckedAgent, message: Published) -> bool:
    if not agent.calls or agent.rec_swarm != message.swarm:
        return False
    selector = agent.args.selector
    return accepts(agent.accepts, message.sender) and (
        selector is None
        or (selector.pattern.capture(message.text, 0) is not None) != selector.invert
    )
