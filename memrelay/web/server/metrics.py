"""Prometheus metrics, built for each scrape from the current status and traffic."""

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from memrelay.bus.malformed import MALFORMED
from memrelay.web.server.connection_limits import Traffic

Status = dict[str, Any]


class _MetricSpec(NamedTuple):
    """A metric with one sample per worker or pipeline. `read` returns its value."""

    family: type[CounterMetricFamily] | type[GaugeMetricFamily]
    name: str
    help: str
    read: Callable[[Status], float]


def _counter(name: str, help: str, source: str | Callable[[Status], float]) -> _MetricSpec:
    """Return a metric that only grows. `source` is a field of the status, or returns the value."""
    read = itemgetter(source) if isinstance(source, str) else source
    return _MetricSpec(CounterMetricFamily, name, help, read)


def _gauge(name: str, help: str, source: str | Callable[[Status], float]) -> _MetricSpec:
    """Return a metric that grows and shrinks. `source` is as in `_counter`."""
    return _counter(name, help, source)._replace(family=GaugeMetricFamily)


WORKER_METRICS = (
    _gauge(
        "memrelay_loop_lag_seconds",
        "Longest delay of the worker's event loop within the last two seconds.",
        lambda worker: worker["loop_lag_ms"] / 1000,
    ),
    _counter(
        "memrelay_groups_recreated",
        "Consumer groups that were missing and were recreated.",
        "groups_recreated",
    ),
)
MALFORMED_MESSAGES = _counter(
    "memrelay_malformed_messages",
    "Malformed messages on channels and in shared keys that the worker dropped.",
    "malformed",
)
PIPELINE_METRICS = (
    _counter("memrelay_inputs_in", "Inputs read since the owner started.", "in"),
    _counter(
        "memrelay_inputs_dead",
        "Inputs that became dead letters. The other finished inputs succeeded.",
        "dead",
    ),
    _counter(
        "memrelay_inputs_duplicate",
        "Redelivered inputs that were answered from the inbox.",
        "duplicates",
    ),
    _counter(
        "memrelay_record_changes",
        "Changes of records in the pipeline's stores since the owner started.",
        "changes",
    ),
    _counter(
        "memrelay_searches", "Calls of operations that search since the owner started.", "searches"
    ),
    _counter("memrelay_batches_retried", "Batches that were retried.", "pauses"),
    _counter(
        "memrelay_handler_seconds", "Time that batches spent in the database thread.", "handler_s"
    ),
    _gauge(
        "memrelay_store_bytes",
        "Size of the pipeline's stores. Pipelines that share a store all count it.",
        "store_bytes",
    ),
    _counter(
        "memrelay_ownership_changes",
        "Times that a worker took the pipeline, its own restarts included.",
        "epoch",
    ),
    _counter("memrelay_gaps", "Times without a worker that listens to PUBLISH.", "gaps"),
    _counter("memrelay_gap_seconds", "Total duration of the gaps.", "deaf_s"),
    _gauge("memrelay_wal_bytes", "Size of the stores' write-ahead logs.", "wal_bytes"),
    _gauge(
        "memrelay_outbox_bytes", "Bytes that were sent and are not yet confirmed.", "outbox_bytes"
    ),
    _gauge(
        "memrelay_pipeline_paused",
        "Whether the pipeline is paused; /status shows the reason.",
        lambda pipeline: bool(pipeline["paused"]),
    ),
    _counter("memrelay_inputs_done", "Inputs finished since the owner started.", "done"),
    _counter("memrelay_inputs_retried", "Inputs that were postponed for a retry.", "retried"),
    _counter(
        "memrelay_sends_failed",
        "Requests of http_request and webhook_send that ended with an error.",
        "failed_sends",
    ),
    _gauge("memrelay_inputs_waiting", "Inputs that currently wait for a retry.", "waiting"),
    _gauge(
        "memrelay_deferred_calls_open",
        "Requests of blocks that have no result yet.",
        "deferred_calls",
    ),
    _gauge("memrelay_vectors_todo", "Records without a vector.", "vectors_todo"),
    _gauge("memrelay_input_lag", "Inputs that are not yet finished.", "lag"),
    _gauge("memrelay_input_oldest_seconds", "Age of the oldest unfinished input.", "oldest_s"),
    _gauge(
        "memrelay_erasure_pending",
        "Whether an erasure is not yet complete; /status shows the reason.",
        lambda pipeline: bool(pipeline["erasure_pending"]),
    ),
    _gauge("memrelay_dead_letters", "Dead letters.", "dead_letters"),
    _gauge(
        "memrelay_pipeline_owned",
        "Whether a worker serves the pipeline.",
        lambda pipeline: pipeline["owner"] is not None,
    ),
)


# Of pipelines with endpoints.
DELIVERY_METRICS = (
    _gauge("memrelay_deliveries_waiting", "Deliveries that wait for a try.", "waiting"),
    _gauge(
        "memrelay_deliveries_failed", "Deliveries of the last 30 days that have failed.", "failed"
    ),
    _counter(
        "memrelay_deliveries_delivered",
        "Deliveries that were accepted since the owner started.",
        "delivered",
    ),
    _counter("memrelay_delivery_tries", "Tries to deliver since the owner started.", "tries"),
    _gauge("memrelay_endpoints_failing", "Endpoints whose last try has failed.", "failing"),
    _gauge(
        "memrelay_endpoints_off",
        "Endpoints that were switched off because they failed, or answered 410.",
        "off",
    ),
)
DELIVERY_DURATION = (
    "memrelay_delivery_duration_seconds",
    "Time of a try, from its start to the answer.",
)
STORAGE_METRICS = (
    _gauge("memrelay_bus_memory_bytes", "Memory that the bus server uses.", "bus_memory_bytes"),
    _gauge(
        "memrelay_bus_max_memory_bytes",
        "The bus server's maxmemory; 0 without a limit.",
        "bus_max_memory_bytes",
    ),
    _gauge("memrelay_bus_aof_bytes", "Size of the bus server's append-only file.", "bus_aof_bytes"),
    _gauge("memrelay_bus_replicas", "Connected replicas of the bus server.", "bus_replicas"),
    _gauge(
        "memrelay_postgres_bytes",
        "Size of the database at storage.url; 0 without one.",
        "postgres_bytes",
    ),
    _gauge(
        "memrelay_disk_free_bytes", "Free space on the disk of the memory root.", "disk_free_bytes"
    ),
    _gauge(
        "memrelay_last_backup_timestamp_seconds",
        "Start of the last complete backup in Unix time; 0 if there was none.",
        lambda storage: storage["last_backup_at"] / 1000,
    ),
)
LATENCIES = {
    "commit": (
        "memrelay_commit_latency_seconds",
        "From the arrival of an input to its commit. At most 16 inputs of a batch are measured.",
    ),
    "publish": (
        "memrelay_publish_latency_seconds",
        "From the commit of a batch to the bus's confirmation of its results.",
    ),
}


# Histograms as in the status, by the values of the labels.
Series = dict[tuple[str, ...], Status]
# Requests to webhooks by pipeline, agent and reason.
RequestCounts = Mapping[tuple[str, str, str], int]


def render_metrics(
    status: Status | None, traffic: Traffic | None, requests: RequestCounts, unknown: int
) -> bytes:
    """Return the metrics page.

    `status` is None while the bus is down. `traffic` is None for callers that do not see all
    pipelines. `unknown` counts the requests to unknown webhooks.
    """
    registry = CollectorRegistry()
    registry.register(_Snapshot(status, traffic, requests, unknown))
    return generate_latest(registry)


class _Snapshot:
    """A collector of one status and the current traffic."""

    def __init__(
        self, status: Status | None, traffic: Traffic | None, requests: RequestCounts, unknown: int
    ) -> None:
        self._status, self._traffic = status, traffic
        self._requests, self._unknown = requests, unknown

    def collect(self) -> Iterator[Metric]:
        if self._traffic is not None:
            yield from _traffic_metrics(self._traffic)
            yield CounterMetricFamily(
                "memrelay_webhook_requests_unknown",
                "Requests to webhooks of unknown pipelines and agents.",
                self._unknown,
            )
        webhooks = CounterMetricFamily(
            "memrelay_webhook_requests",
            "Requests to webhooks by agent, and whether they were accepted or why not.",
            labels=["pipeline", "agent", "reason"],
        )
        for labels, count in self._requests.items():
            webhooks.add_metric(labels, count)
        yield webhooks
        yield GaugeMetricFamily(
            "memrelay_bus_up", "Whether the bus answers.", self._status is not None
        )
        if self._status is None:
            return
        workers, pipelines = self._status["workers"], self._status["pipelines"]
        yield GaugeMetricFamily("memrelay_workers", "Running workers.", len(workers))
        for spec in WORKER_METRICS:
            yield _family(spec, workers, worker="name")
        reporting = [worker for worker in workers if "malformed" in worker]
        yield _family(MALFORMED_MESSAGES, reporting, worker="name")
        if storage := self._status.get("storage"):
            for spec in STORAGE_METRICS:
                yield spec.family(spec.name, spec.help, value=spec.read(storage))
        for which, (name, text) in LATENCIES.items():
            found = {one["name"]: one.get("latency", {}).get(which) for one in workers}
            of_workers: Series = {(worker,): one for worker, one in found.items() if one}
            yield _histogram(name, text, of_workers, "worker")
        for spec in PIPELINE_METRICS:
            yield _family(spec, pipelines, pipeline="pipeline_uid", name="name")
        yield from _delivery_metrics([one for one in pipelines if "deliveries" in one])


def _delivery_metrics(pipelines: list[Status]) -> Iterator[Metric]:
    """Yield the metrics of deliveries; none if no pipeline has endpoints."""
    if not pipelines:
        return
    for spec in DELIVERY_METRICS:
        items = [one | one["deliveries"] for one in pipelines]
        yield _family(spec, items, pipeline="pipeline_uid", name="name")
    durations: Series = {
        (one["pipeline_uid"], one["name"]): one["deliveries"]["duration"] for one in pipelines
    }
    yield _histogram(*DELIVERY_DURATION, durations, "pipeline", "name")


def _family(spec: _MetricSpec, items: list[Status], **labels: str) -> Metric:
    """Return a metric with one sample per item. `labels` maps labels to keys of the items."""
    family = spec.family(spec.name, spec.help, labels=list(labels))
    for item in items:
        family.add_metric([item[key] for key in labels.values()], spec.read(item))
    return family


def _histogram(name: str, text: str, series: Series, *labels: str) -> Metric:
    """Return a histogram. Prometheus expects cumulative counts."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, latency in series.items():
        bounds = [*map(str, latency["bounds_s"]), "+Inf"]
        counts = accumulate(latency["counts"])
        buckets = list(zip(bounds, counts, strict=True))
        family.add_metric(list(values), buckets=buckets, sum_value=latency["sum_s"])
    return family


def _traffic_metrics(traffic: Traffic) -> Iterator[Metric]:
    answers = CounterMetricFamily(
        "memrelay_http_answers", "HTTP responses by status.", labels=["status"]
    )
    for status, count in traffic.answers.items():
        answers.add_metric([str(status)], count)
    yield answers
    yield GaugeMetricFamily(
        "memrelay_listeners", "Open WebSockets that follow a swarm.", traffic.listeners
    )
    yield CounterMetricFamily(
        "memrelay_listeners_dropped",
        "WebSockets closed because they read too slowly.",
        traffic.dropped_listeners,
    )
    yield GaugeMetricFamily("memrelay_connections", "Open HTTP connections.", traffic.connections)
    refused = CounterMetricFamily(
        "memrelay_connections_refused", "Connections closed by a limit.", labels=["reason"]
    )
    refused.add_metric(["too many"], traffic.rejected)
    refused.add_metric(["too slow"], traffic.timed_out)
    yield refused
    yield CounterMetricFamily(
        "memrelay_malformed_replies",
        "Malformed replies that the web server dropped.",
        MALFORMED.replies,
    )
