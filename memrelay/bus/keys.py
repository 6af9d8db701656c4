"""Names of Redis keys and channels (docs/architecture.md, "The wire")."""

import re
from binascii import crc_hqx
from typing import NamedTuple

# The consumer group that reads the input of a pipeline.
GROUP = "owner"
# Channel: the control plane changed.
CHANGES = "memrelay:changes"
# Replaces the uid of a pipeline in the keys of public swarms.
PUBLIC = "public"

UID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# A swarm's name is the last part of a key and a line of the inbox.
SWARM = re.compile(r"[^\x00-\x1f\x7f{}]{1,128}")
# The cell in the name of a worker's lease.
LEASE_CELL = re.compile(r"@(c[0-9]{2})/")


class _Layout:
    """How many cells the bus has. On a single server, 0: the hash tag of a pipeline is its uid."""

    cells = 0


def use_cells(count: int) -> None:
    """Spread the keys over so many cells of a cluster, 0 on a single server.

    All keys of a cell have its name as hash tag, so that they are in one slot. Call it before a key
    is made.
    """
    _Layout.cells = count


def all_cells() -> list[str]:
    """Return the names of all cells; [""] on a single server."""
    return [f"c{number:02d}" for number in range(_Layout.cells)] or [""]


def find_cell(uid: str) -> str:
    """Return the cell of a pipeline; "" on a single server. The number is CRC-16 of the uid."""
    return f"c{crc_hqx(uid.encode(), 0) % _Layout.cells:02d}" if _Layout.cells else ""


def find_worker_cell(worker: str) -> str:
    """Return the cell in the name of a lease; the first one if it names none."""
    found = LEASE_CELL.search(worker)
    return found[1] if found else all_cells()[0]


def _tag(name: str, cell: str) -> str:
    return f"{{{cell}}}{name}" if cell else f"{{{name}}}"


def _make_tag(uid: str) -> str:
    return _tag(uid, find_cell(uid))


def workers_key(cell: str = "") -> str:
    """Return the sorted set of a cell's workers by their last heartbeat in Unix ms."""
    return f"memrelay:{_tag('workers', cell)}"


def listeners_key() -> str:
    """Return the sorted set of the pipelines on public swarms (bus/public_listeners.py)."""
    return f"listeners:{_make_tag(PUBLIC)}"


def reindex_key(cell: str = "") -> str:
    """Return the hash of the pipelines of a cell whose vectors are to be recomputed."""
    return f"memrelay:{_tag('remake', cell)}" if cell else "memrelay:remake"


def cells_key(cell: str) -> str:
    """Return the key with the number of cells, which is fixed when a cluster is first used."""
    return f"memrelay:{_tag('cells', cell)}"


def probe_key(name: str, cell: str = "") -> str:
    """Return a key that is written to test the server of a cell."""
    return f"memrelay:{_tag('probe', cell)}:{name}" if cell else f"memrelay:probe:{name}"


def input_key(uid: str) -> str:
    """Return the input stream of a pipeline: `swarm`, `agent` or `op`, and `data`."""
    return f"pipeline:{_make_tag(uid)}:in"


def ask_channel(uid: str) -> str:
    """Return the channel on which a pipeline's owner receives read-only operation calls."""
    return f"pipeline:{_make_tag(uid)}:ask"


def timers_key(uid: str) -> str:
    """Return the hash with the last tick of each agent of a pipeline, by alias."""
    return f"pipeline:{_make_tag(uid)}:timers"


def stores_key(uid: str) -> str:
    """Return the hash from a pipeline's `memory_id`s to their last acknowledged commits."""
    return f"pipeline:{_make_tag(uid)}:stores"


def webhook_requests_key(uid: str, alias: str, *, is_refused: bool) -> str:
    """Return the capped stream of the accepted or the refused requests to an agent's webhook.

    Each entry has `row`, a JSON object (web/webhooks/requests.py).
    """
    outcome = "refused" if is_refused else "accepted"
    return f"pipeline:{_make_tag(uid)}:webhooks:{outcome}:{alias}"


def webhook_changes_key(uid: str) -> str:
    """Return the number that grows with the streams of requests to a pipeline's webhooks."""
    return f"pipeline:{_make_tag(uid)}:webhooks"


def swarm_key(uid: str, swarm: str) -> str:
    """Return the log of a swarm (a stream of `mid` and `data`), and the channel of that name.

    The `uid` of a public swarm is PUBLIC.
    """
    return f"swarm:{_make_tag(uid)}:{swarm}"


def reply_channel(uid: str, token: str) -> str:
    """Return the channel on which one caller awaits its answer."""
    return f"reply:{_make_tag(uid)}:{token}"


def reply_pattern(token: str) -> str:
    """Return the pattern of the channels with that token, of all pipelines."""
    return f"reply:{{*:{token}"


def changed_channel(uid: str) -> str:
    """Return the channel that announces changes of a pipeline's stores that have a change feed."""
    return f"changed:{_make_tag(uid)}"


def live_channel(uid: str) -> str:
    """Return the channel of a pipeline's events that no store keeps, such as finished runs."""
    return f"live:{_make_tag(uid)}"


def worker_key(worker: str) -> str:
    """Return the lease of a worker: its last report as JSON, which expires without heartbeats."""
    return f"{workers_key(find_worker_cell(worker))}:{worker}"


def fence_key(worker: str) -> str:
    """Return the fence of a worker, which a successor deletes to fence it."""
    return f"{workers_key(find_worker_cell(worker))}:{worker}:fence"


def owner_key(uid: str) -> str:
    """Return the hash with the `worker` and `epoch` that own a pipeline.

    `gaps` and `deaf_ms` count how often and how long it had no owner.
    """
    return f"pipeline:{_make_tag(uid)}:owner"


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
