"""The agents of a pipeline as the console shows them: what each does, on which swarm it hears whom,
and where it answers."""

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from memrelay.pipelines.check import CheckedAgent, CheckedBundle


class Station(NamedTuple):
    """One agent."""

    name: str  # publishes as
    alias: str
    block: str
    description: str
    hears_on: str  # "" where it listens to no swarm
    accepts: tuple[str, ...]  # names, or `!name`s; () for everybody
    says_on: str  # "" where what it answers is not published
    is_idle: bool  # its block is not called for what it hears

    @property
    def from_whom(self) -> str:
        """`accepts` in words."""
        if not self.hears_on:
            return ""
        if not self.accepts:
            return "anyone"
        if all(name.startswith("!") for name in self.accepts):
            return "anyone but " + ", ".join(name.removeprefix("!") for name in self.accepts)
        return ", ".join(self.accepts)

    @property
    def named(self) -> tuple[str, ...]:
        """The names of those whom it hears where it hears nobody else."""
        return () if any(name.startswith("!") for name in self.accepts) else self.accepts


def stations_of(bundle: CheckedBundle) -> list[Station]:
    """The agents in the order of the bundle."""
    told = [agent.get("agent_desc") for agent in orjson.loads(bundle.source)["agents"]]
    return [
        _station(agent, text if isinstance(text, str) else "")
        for agent, text in zip(bundle.agents, told, strict=True)
    ]


def swarms_heard(stations: Sequence[Station]) -> list[str]:
    """The swarms on which it is worth saying something: the one where people talk first."""
    talks = [station.says_on for station in stations if station.block == "chat_agent"]
    return list(
        dict.fromkeys(
            name for name in (*talks, *[station.hears_on for station in stations]) if name
        )
    )


def _station(checked: CheckedAgent, description: str) -> Station:
    agent, is_called = checked.agent, checked.block.handle is not None
    return Station(
        agent.name,
        agent.alias,
        checked.block.name,
        description,
        checked.rec_swarm,
        checked.accepts,
        checked.send_swarm if agent.publishes else "",
        is_called and not checked.calls,
    )
