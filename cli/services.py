"""What serves, made from the settings: the part of the composition root that only serving commands load."""
from functools import partial

from bus.address import Address
from bus.backlog import IngressLimits
from cli.composition import bus_name
from cli.settings import Settings, read_secret
from memory.embedding.embedder import EmbeddingOptions
from web.parts import WebOptions
from web.service import WebServer
from worker.limits import WorkerLimits
from worker.service import Worker, WorkerOptions


def make_worker(settings: Settings, address: Address) -> Worker:
    """A worker as the settings want it."""
    limits = WorkerLimits(
        batch=settings.worker.batch, max_hops=settings.worker.max_hops, max_cascade=settings.worker.max_cascade,
        message_bytes=settings.bus.max_message_bytes, log_length=settings.bus.log_length,
        producer_id_days=settings.worker.producer_id_days, history_days=settings.worker.history_days,
        grace_s=settings.worker.grace_s, lease_s=settings.worker.lease_s, retries=settings.worker.retries)
    options = WorkerOptions(address, settings.memory.root, settings.memory.threads, settings.memory.open_files, limits,
                            embedding_options(settings), settings.embedding.matrix_mib << 20)
    return Worker(options)


def embedding_options(settings: Settings) -> EmbeddingOptions:
    """Which embedder; its key is read when it is wanted, so that no start fails for the lack of it."""
    wanted = settings.embedding
    return EmbeddingOptions(wanted.model, wanted.threads, wanted.url, wanted.name,
                            partial(read_secret, wanted.key) if wanted.key else None, wanted.private, wanted.timeout_s)


def make_web(settings: Settings, address: Address) -> WebServer:
    """A web server as the settings want it."""
    web = settings.web
    options = WebOptions(
        host=web.host, port=web.port, hosts=tuple(name.strip() for name in web.hosts.split(",") if name.strip()),
        message_bytes=settings.bus.max_message_bytes, json_depth=web.max_json_depth, json_keys=web.max_json_keys,
        max_wait_s=web.max_wait_s, call_timeout_s=web.call_timeout_s, read_timeout_s=web.read_timeout_s,
        connections=web.max_connections, rate=web.rate, burst=web.burst, listener_backlog=web.listener_backlog,
        bus_name=bus_name(settings),
        ingress=IngressLimits(backlog=settings.bus.max_backlog, backlog_bytes=settings.bus.max_backlog_bytes))
    return WebServer(address, settings.memory.root, options, read_secret)
