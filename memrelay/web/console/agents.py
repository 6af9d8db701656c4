"""The agents of a pipeline, and their stores with records, as the console shows them."""

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from memrelay.memory.engine.memory_id import built_in_store, is_closed
from memrelay.pipelines.check import CheckedAgent, CheckedBundle
from memrelay.web.api.directory import Served


class AgentView(NamedTuple):
    """One agent.

    `name` is the name under which it publishes. `listens_on` is "" if it listens to no swarm, and
    `publishes_on` is "" if it publishes nothing. `accepts` holds sender names, or `!name` for
    excluded senders. It is empty if the agent accepts all senders. An agent `is_idle` if its block
    is not called for the messages that it receives. It `is_called` if its block is called for them.
    """

    name: str
    alias: str
    block: str
    description: str
    listens_on: str
    accepts: tuple[str, ...]
    publishes_on: str
    is_idle: bool
    is_called: bool = True

    @property
    def senders(self) -> str:
        """Describe the accepted senders. A list of excluded ones is shortened."""
        if not self.listens_on:
            return ""
        if not self.accepts:
            return "everyone"
        excluded = [name.removeprefix("!") for name in self.accepts if name.startswith("!")]
        if len(excluded) < len(self.accepts):
            return ", ".join(self.accepts)
        return "everyone but commands" if len(excluded) > 1 else f"everyone but {excluded[0]}"

    @property
    def all_senders(self) -> str:
        """Return the accepted senders, `!name` for an excluded one."""
        return ", ".join(self.accepts) or self.senders

    @property
    def named_senders(self) -> tuple[str, ...]:
        """Return the sender names if the agent accepts only these."""
        return () if any(name.startswith("!") for name in self.accepts) else self.accepts


def list_agents(bundle: CheckedBundle) -> list[AgentView]:
    """Return the agents in the order of the bundle."""
    descriptions = [agent.get("agent_desc") for agent in orjson.loads(bundle.source)["agents"]]
    return [
        _view_agent(agent, text if isinstance(text, str) else "")
        for agent, text in zip(bundle.agents, descriptions, strict=True)
    ]


def list_input_swarms(agents: Sequence[AgentView]) -> list[str]:
    """Return the swarms that agents listen to. The swarm of a chat agent comes first."""
    chats = [agent.publishes_on for agent in agents if agent.block == "chat_agent"]
    heard = [agent.listens_on for agent in agents]
    return list(dict.fromkeys(name for name in (*chats, *heard) if name))


def _view_agent(checked: CheckedAgent, description: str) -> AgentView:
    agent, is_callable = checked.agent, checked.block.handle is not None
    return AgentView(
        agent.name,
        agent.alias,
        checked.block.name,
        description,
        checked.rec_swarm,
        checked.accepts,
        checked.send_swarm if agent.publishes else "",
        is_callable and not checked.calls,
        checked.calls,
    )


def list_record_stores(served: Served) -> list[str]:
    """Return the memory_ids of the stores with records: those of blocks, and the agents' memory."""
    named = [agent.args.store for agent in served.bundle.agents if agent.args.store]
    every = dict.fromkeys((*named, built_in_store(served.deployed.uid, "memories")))
    return [name for name in every if not is_closed(name)]
