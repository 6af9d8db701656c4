"""A worker, made from the settings: a part of the composition root that only who serves one
loads."""

from functools import partial

from memrelay.bus.client.url import Address
from memrelay.cli.settings import Settings, read_secret
from memrelay.memory.embedding.embedder import EmbeddingOptions
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.service import Worker, WorkerOptions


def make_worker(settings: Settings, address: Address) -> Worker:
    """A worker as the settings want it."""
    limits = WorkerLimits(
        batch=settings.worker.batch,
        max_hops=settings.worker.max_hops,
        max_cascade=settings.worker.max_cascade,
        message_bytes=settings.bus.max_message_bytes,
        log_length=settings.bus.log_length,
        producer_id_days=settings.worker.producer_id_days,
        history_days=settings.worker.history_days,
        grace_s=settings.worker.grace_s,
        lease_s=settings.worker.lease_s,
        retries=settings.worker.retries,
    )
    options = WorkerOptions(
        address,
        settings.memory.root,
        settings.memory.threads,
        settings.memory.open_files,
        limits,
        embedding_options(settings),
        settings.embedding.matrix_mib << 20,
    )
    return Worker(options)


def embedding_options(settings: Settings) -> EmbeddingOptions:
    """Which embedder; its key is read when it is wanted, so that no start fails for the lack of
    it."""
    wanted = settings.embedding
    return EmbeddingOptions(
        wanted.model,
        wanted.threads,
        wanted.url,
        wanted.name,
        partial(read_secret, wanted.key) if wanted.key else None,
        wanted.private,
        wanted.timeout_s,
    )
