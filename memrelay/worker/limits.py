"""Limits of a worker (sections `bus` and `worker` of config.yaml)."""

from dataclasses import dataclass

from memrelay.memory.control.dead_letters import CONTENT_BYTES
from memrelay.memory.engine.retention import HISTORY_DAYS


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Sizes are in bytes, and times in the unit of the name."""

    # Inputs of a batch.
    batch: int = 256
    max_hops: int = 32
    # Messages that one input leads to, and their bytes: they leave in one MULTI, which has each
    # message twice.
    max_cascade: int = 1000
    cascade_bytes: int = 64 << 20
    message_bytes: int = 1 << 20
    # Fields in message.IDENTITY_FIELDS that clients may set.
    trusted_fields: tuple[str, ...] = ()
    # Entries of a swarm's log, and their bytes in the server.
    log_length: int = 10_000
    log_bytes: int = 64 << 20
    # Content of a pipeline's dead letters.
    dead_letter_bytes: int = CONTENT_BYTES
    producer_id_days: float = 4
    history_days: float = HISTORY_DAYS
    # Bytes of the snapshots of a group of pipelines that calls with `as_of` read.
    snapshot_bytes: int = 1 << 30
    # Bytes of messages after which a batch is committed and sent. They fit the cache of a core.
    batch_bytes: int = 256 << 10
    # Time after which a batch is committed, so that other pipelines of its thread have their turn.
    batch_s: float = 0.25
    # Attempts to run an input that was in flight in a crash.
    attempts: int = 3
    grace_s: float = 10
    # A worker without a heartbeat for so long may be replaced.
    lease_s: float = 30
    # Retries of an input, and the pauses before them, which double.
    retries: int = 8
    first_pause_s: float = 1
    longest_pause_s: float = 300
    # Deferred calls that run at once, and the longest time of one.
    deferred_calls: int = 8
    deferred_call_s: float = 120
    # Deferred calls that wait in one group. Beyond that its messages stay in the input.
    open_deferred_calls: int = 10_000
