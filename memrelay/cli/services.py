"""Create a worker from the settings.

Separate from web_server, because a worker must not import aiohttp.
"""

from dataclasses import replace
from functools import partial

from memrelay.bus.client.url import Address
from memrelay.bus.keys import all_cells
from memrelay.cli.composition import (
    is_listed,
    make_outgoing_rules,
    make_reference_absolute,
    make_secrets,
    make_secrets_of_operator,
    secrets_folder,
)
from memrelay.cli.open_files import resolve_open_files
from memrelay.cli.settings import Settings
from memrelay.cli.tracing import start_tracing
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.service import CellWorkers, Worker, WorkerOptions


def make_worker(settings: Settings, address: Address) -> Worker | CellWorkers:
    """Return a worker with these settings: in a cluster, one for each cell."""
    cells = all_cells()
    workers = [_make_worker(settings, replace(address, cell=cell), len(cells)) for cell in cells]
    return workers[0] if len(workers) == 1 else CellWorkers(workers)


def _make_worker(settings: Settings, address: Address, count: int) -> Worker:
    """Return one of `count` workers, which share open files and search caches."""
    options = WorkerOptions(
        address,
        settings.memory.root,
        settings.memory.threads,
        max(1, resolve_open_files(settings.memory.open_files) // count),
        make_limits(settings),
        embedding_options(settings),
        settings.embedding.matrix_mib << 20,
        (settings.memory.search_cache_mib << 20) // count,
        make_secrets(settings),
        make_outgoing_rules(settings, address),
        settings.storage.url,
        settings.storage.tables and bool(settings.storage.url),
        start_tracing(),
    )
    return Worker(options)


def make_limits(settings: Settings) -> WorkerLimits:
    return WorkerLimits(
        batch=settings.worker.batch,
        max_hops=settings.worker.max_hops,
        max_cascade=settings.worker.max_cascade,
        message_bytes=settings.bus.max_message_bytes,
        trusted_fields=settings.bus.trusted_fields,
        log_length=settings.bus.log_length,
        log_bytes=settings.bus.log_bytes,
        dead_letter_bytes=settings.worker.dead_letter_bytes,
        producer_id_days=settings.worker.producer_id_days,
        history_days=settings.worker.history_days,
        snapshot_bytes=settings.memory.snapshot_mib << 20,
        grace_s=settings.worker.grace_s,
        lease_s=settings.worker.lease_s,
        retries=settings.worker.retries,
        deferred_calls=settings.worker.deferred_calls,
        deferred_call_s=settings.worker.deferred_call_s,
    )


def embedding_options(settings: Settings) -> EmbeddingOptions:
    """Return the options of the embedder.

    The embedder reads its key at the first use, so a missing key does not prevent a start.
    """
    embedding = settings.embedding
    key = make_reference_absolute(embedding.key, secrets_folder(settings))
    return EmbeddingOptions(
        embedding.model,
        embedding.threads,
        embedding.url,
        embedding.name,
        partial(make_secrets_of_operator().read, key) if key else None,
        embedding.private or is_listed(settings, "embedding", embedding.url),
        embedding.timeout_s,
    )
