"""Names of swarms in outgoing messages: text for private swarms, PublicSwarm for public ones."""

from typing import NamedTuple

from memrelay.bus.keys import PUBLIC, swarm_key


class PublicSwarm(NamedTuple):
    """A public swarm, and the number of hops after which a message was published on it."""

    name: str
    hop: int


SwarmName = str | PublicSwarm


def make_swarm_key(uid: str, swarm: SwarmName) -> str:
    """Return the key of the log, and name of the channel, to which a pipeline publishes."""
    if isinstance(swarm, PublicSwarm):
        return swarm_key(PUBLIC, swarm.name)
    return swarm_key(uid, swarm)
