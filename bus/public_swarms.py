"""Public swarms: what is said on one goes by a name that no private swarm has, which tells its hops
too.

A private swarm's name has no braces. `{3}news` is the public swarm `news`, and a message that three
others led to.
"""

from memrelay.bus.keys import PUBLIC, swarm_key

OPEN, CLOSE = "{", "}"


def in_public(swarm: str, hop: int) -> str:
    """The name by which something is said on a public swarm, after so many hops."""
    return f"{OPEN}{hop}{CLOSE}{swarm}"


def is_public(name: str) -> bool:
    """Whether this is such a name."""
    return name.startswith(OPEN)


def swarm_and_hop(name: str) -> tuple[str, int]:
    """What `in_public` was given; a private swarm's name is itself, after no hops."""
    if not is_public(name):
        return name, 0
    hop, _, swarm = name.removeprefix(OPEN).partition(CLOSE)
    return swarm, int(hop)


def key_of(uid: str, name: str) -> str:
    """The log and the channel on which a pipeline says something by that name."""
    return swarm_key(PUBLIC, swarm_and_hop(name)[0]) if is_public(name) else swarm_key(uid, name)
