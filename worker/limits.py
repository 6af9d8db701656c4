"""The bounds within which a worker works (config.yaml, sections `bus` and `worker`)."""

from dataclasses import dataclass

from memrelay.memory.retention import HISTORY_DAYS


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Sizes in bytes, times in the unit of the name."""

    batch: int = 256
    max_hops: int = 32
    max_cascade: int = 1000  # messages that one input may give rise to
    cascade_bytes: int = (
        64 << 20
    )  # that they have in all: they leave in one MULTI, which says each twice
    message_bytes: int = 1 << 20
    log_length: int = 10_000
    producer_id_days: float = 4
    history_days: float = HISTORY_DAYS
    batch_bytes: int = (
        256 << 10
    )  # what a batch says before it is committed and sent: it stays in the cache of a core
    attempts: int = 3  # of an input that was in flight in a crash
    grace_s: float = 10
    lease_s: float = 30  # after which a worker that has not called in may be taken for dead
    retries: int = 8  # of an input whose block asks for it
    first_pause_s: float = 1  # before the first of them; each further pause is twice as long
    longest_pause_s: float = 300
