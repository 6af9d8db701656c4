"""Names of Redis keys and channels (docs/architecture.md, "The wire")."""

import re

# The consumer group that reads the input of a pipeline.
GROUP = "owner"
# Channel: the control plane changed.
CHANGES = "memrelay:changes"
# Replaces the uid of a pipeline in the keys of public swarms.
PUBLIC = "public"
# The cell of a cluster. All its keys have this hash tag, so that they are in one slot.
CELL = "c00"

UID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# A swarm's name is the last part of a key and a line of the inbox.
SWARM = re.compile(r"[^\x00-\x1f\x7f{}]{1,128}")


class _Layout:
    """The hash tags of the keys. Without a cell, the tag of a pipeline's keys is its uid."""

    cell = ""


def use_cell(cell: str) -> None:
    """Give all keys the hash tag of a cell, "" for none. Call it before a key is made."""
    _Layout.cell = cell


def _tag(name: str) -> str:
    return f"{{{_Layout.cell}}}{name}" if _Layout.cell else f"{{{name}}}"


def workers_key() -> str:
    """Return the sorted set of workers by their last heartbeat in Unix ms."""
    return f"memrelay:{_tag('workers')}"


def listeners_key() -> str:
    """Return the sorted set of the pipelines on public swarms (bus/public_listeners.py)."""
    return f"listeners:{_tag(PUBLIC)}"


def reindex_key() -> str:
    """Return the hash of the pipelines whose vectors are to be recomputed."""
    return f"memrelay:{_tag('remake')}" if _Layout.cell else "memrelay:remake"


def probe_key(name: str) -> str:
    """Return a key that is written to test the server."""
    return f"memrelay:{_tag('probe')}:{name}" if _Layout.cell else f"memrelay:probe:{name}"


def input_key(uid: str) -> str:
    """Return the input stream of a pipeline: `swarm`, `agent` or `op`, and `data`."""
    return f"pipeline:{_tag(uid)}:in"


def ask_channel(uid: str) -> str:
    """Return the channel on which a pipeline's owner receives read-only operation calls."""
    return f"pipeline:{_tag(uid)}:ask"


def timers_key(uid: str) -> str:
    """Return the hash with the last tick of each agent of a pipeline, by alias."""
    return f"pipeline:{_tag(uid)}:timers"


def stores_key(uid: str) -> str:
    """Return the hash from a pipeline's `memory_id`s to their last acknowledged commits."""
    return f"pipeline:{_tag(uid)}:stores"


def swarm_key(uid: str, swarm: str) -> str:
    """Return the log of a swarm (a stream of `mid` and `data`), and the channel of that name.

    The `uid` of a public swarm is PUBLIC.
    """
    return f"swarm:{_tag(uid)}:{swarm}"


def reply_channel(uid: str, token: str) -> str:
    """Return the channel on which one caller awaits its answer."""
    return f"reply:{_tag(uid)}:{token}"


def changed_channel(uid: str) -> str:
    """Return the channel that announces changes of a pipeline's stores that have a change feed."""
    return f"changed:{_tag(uid)}"


def live_channel(uid: str) -> str:
    """Return the channel of a pipeline's events that no store keeps, such as finished runs."""
    return f"live:{_tag(uid)}"


def worker_key(worker: str) -> str:
    """Return the lease of a worker: its last report as JSON, which expires without heartbeats."""
    return f"{workers_key()}:{worker}"


def fence_key(worker: str) -> str:
    """Return the fence of a worker, which a successor deletes to fence it."""
    return f"{workers_key()}:{worker}:fence"


def owner_key(uid: str) -> str:
    """Return the hash with the `worker` and `epoch` that own a pipeline.

    `gaps` and `deaf_ms` count how often and how long it had no owner.
    """
    return f"pipeline:{_tag(uid)}:owner"
