"""Names of Redis keys and channels (docs/architecture.md, "The wire")."""

import re

# The consumer group that reads the input of a pipeline.
GROUP = "owner"
# Channel: the control plane changed.
CHANGES = "memrelay:changes"
# Sorted set: workers by their last heartbeat in Unix ms.
WORKERS = "memrelay:{workers}"
# Replaces the uid of a pipeline in the keys of public swarms.
PUBLIC = "public"
# Sorted set: which pipeline listens to which public swarm (bus/public_listeners.py).
LISTENERS = f"listeners:{{{PUBLIC}}}"
# Hash: pipelines whose vectors are to be recomputed.
REINDEX_REQUESTS = "memrelay:remake"

UID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# A swarm's name is the last part of a key and a line of the inbox.
SWARM = re.compile(r"[^\x00-\x1f\x7f{}]{1,128}")


def input_key(uid: str) -> str:
    """Return the input stream of a pipeline: `swarm`, `agent` or `op`, and `data`."""
    return f"pipeline:{{{uid}}}:in"


def ask_channel(uid: str) -> str:
    """Return the channel on which a pipeline's owner receives read-only operation calls."""
    return f"pipeline:{{{uid}}}:ask"


def timers_key(uid: str) -> str:
    """Return the hash with the last tick of each agent of a pipeline, by alias."""
    return f"pipeline:{{{uid}}}:timers"


def stores_key(uid: str) -> str:
    """Return the hash from a pipeline's `memory_id`s to their last acknowledged commits."""
    return f"pipeline:{{{uid}}}:stores"


def swarm_key(uid: str, swarm: str) -> str:
    """Return the log of a swarm (a stream of `mid` and `data`), and the channel of that name.

    The `uid` of a public swarm is PUBLIC.
    """
    return f"swarm:{{{uid}}}:{swarm}"


def reply_channel(uid: str, token: str) -> str:
    """Return the channel on which one caller awaits its answer."""
    return f"reply:{{{uid}}}:{token}"


def changed_channel(uid: str) -> str:
    """Return the channel that announces changes of a pipeline's stores that have a change feed."""
    return f"changed:{{{uid}}}"


def live_channel(uid: str) -> str:
    """Return the channel of a pipeline's events that no store keeps, such as finished runs."""
    return f"live:{{{uid}}}"


def worker_key(worker: str) -> str:
    """Return the lease of a worker: its last report as JSON, which expires without heartbeats."""
    return f"{WORKERS}:{worker}"


def fence_key(worker: str) -> str:
    """Return the fence of a worker, which a successor deletes to fence it."""
    return f"{WORKERS}:{worker}:fence"


def owner_key(uid: str) -> str:
    """Return the hash with the `worker` and `epoch` that own a pipeline.

    `gaps` and `deaf_ms` count how often and how long it had no owner.
    """
    return f"pipeline:{{{uid}}}:owner"
