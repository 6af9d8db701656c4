"""Ids of the stores of users and chats of a pipeline."""

from functools import lru_cache
from hashlib import blake2b

from memrelay.memory.items.identity import MAX_ID_CHARACTERS

HASH_BYTES = 24


def user_store(user: str) -> str:
    """Return the id of a user's store."""
    return _fit("user:", user)


def chat_store(pipeline: str, swarm: str) -> str:
    """Return the id of the store of a swarm."""
    return _fit("chat:", f"{pipeline}/{swarm}")


def agent_store(agent: str) -> str:
    """Return the id of an agent, which is also the id of its own store."""
    return _fit("", agent)


@lru_cache(1024)
def _fit(prefix: str, name: str) -> str:
    """Return prefix and name. A name that is too long is hashed."""
    if len(prefix) + len(name) <= MAX_ID_CHARACTERS:
        return prefix + name
    return prefix + blake2b(name.encode(), digest_size=HASH_BYTES).hexdigest()
