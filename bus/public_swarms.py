"""Names that carry a public swarm and a hop count in one string.

The name of a private swarm contains no braces. `{3}news` is the public swarm `news` with a message
that three other messages led to.
"""

from memrelay.bus.keys import PUBLIC, swarm_key

OPEN, CLOSE = "{", "}"


def in_public(swarm: str, hop: int) -> str:
    """Return the name of a public swarm for a message after `hop` hops."""
    return f"{OPEN}{hop}{CLOSE}{swarm}"


def is_public(name: str) -> bool:
    """Return whether a name belongs to a public swarm."""
    return name.startswith(OPEN)


def swarm_and_hop(name: str) -> tuple[str, int]:
    """Return the swarm and the hop count in a name; a private swarm has no hops."""
    if not is_public(name):
        return name, 0
    hop, _, swarm = name.removeprefix(OPEN).partition(CLOSE)
    return swarm, int(hop)


def key_of(uid: str, name: str) -> str:
    """Return the log and channel of a swarm's name in the pipeline `uid`."""
    return swarm_key(PUBLIC, swarm_and_hop(name)[0]) if is_public(name) else swarm_key(uid, name)
