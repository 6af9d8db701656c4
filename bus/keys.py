"""The names on the wire: keys, channels and the fields of their entries (docs/architecture.md, "The
wire")."""

import re

GROUP = "owner"  # the consumer group that reads a pipeline's input
CHANGES = "memrelay:changes"  # channel: the control plane changed, look again
ROLL = "memrelay:{workers}"  # sorted set: the workers by when they were last heard, Unix ms
PUBLIC = "public"  # where a public swarm's key has the uid of a private one's pipeline
LISTENERS = f"listeners:{{{PUBLIC}}}"  # sorted set: who listens to which public swarm (bus/public_listeners.py)
REMAKE = "memrelay:remake"  # hash: pipelines whose vectors are to be made anew

UID = re.compile(r"[A-Za-z0-9_-]{1,64}")
SWARM = re.compile(
    r"[^\x00-\x1f\x7f{}]{1,128}"
)  # what stands in a key's last part and in a line of the inbox


def input_key(uid: str) -> str:
    """The stream by which everything enters a pipeline: `swarm`, `agent` or `op`; `data`; optional
    others."""
    return f"pipeline:{{{uid}}}:in"


def ask_channel(uid: str) -> str:
    """Where a pipeline's owner hears calls of operations that change nothing."""
    return f"pipeline:{{{uid}}}:ask"


def timers_key(uid: str) -> str:
    """When each agent of a pipeline was called last by its timer: a hash with a field for each
    alias."""
    return f"pipeline:{{{uid}}}:timers"


def stores_key(uid: str) -> str:
    """A hash from the `memory_id` of a pipeline's stores to the last commit that was
    acknowledged."""
    return f"pipeline:{{{uid}}}:stores"


def swarm_key(uid: str, swarm: str) -> str:
    """A swarm's log (stream with fields `mid`, `data`) and, by the same name, its channel; a public
    one's `uid` is PUBLIC."""
    return f"swarm:{{{uid}}}:{swarm}"


def reply_channel(uid: str, token: str) -> str:
    """Where one caller awaits its answer."""
    return f"reply:{{{uid}}}:{token}"


def worker_key(worker: str) -> str:
    """What a worker said of itself last, as JSON: its lease, which expires when the worker is
    silent."""
    return f"{ROLL}:{worker}"


def fence_key(worker: str) -> str:
    """There as long as nobody has taken the worker for dead."""
    return f"{ROLL}:{worker}:fence"


def owner_key(uid: str) -> str:
    """Who owns a pipeline: a hash with `worker`, `epoch`, and the times when nobody listened:
    `gaps`, `deaf_ms`."""
    return f"pipeline:{{{uid}}}:owner"
