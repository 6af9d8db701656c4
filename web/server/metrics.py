"""What is measured, in Prometheus' form: made anew for each scrape, from what is known then."""

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from memrelay.web.server.connection_limits import Traffic

BY_PIPELINE = ("pipeline", "name")


def render(status: dict[str, Any] | None, traffic: Traffic | None) -> bytes:
    """The page; without a status, because the bus is away, what this process knows of itself;
    without traffic not even that."""
    registry = CollectorRegistry()
    registry.register(_Snapshot(status, traffic))
    return generate_latest(registry)


class _Snapshot:
    """One moment, as a collector."""

    def __init__(self, status: dict[str, Any] | None, traffic: Traffic | None) -> None:
        self._status, self._traffic = status, traffic

    def collect(self) -> Iterator[Metric]:
        """prometheus_client's call."""
        yield from _of_process(self._traffic) if self._traffic is not None else ()
        yield GaugeMetricFamily(
            "memrelay_bus_up", "Whether the bus answers.", self._status is not None
        )
        if self._status is not None:
            yield GaugeMetricFamily(
                "memrelay_workers", "Workers that live.", len(self._status["workers"])
            )
            yield from _of_workers(self._status["workers"])
            yield from _of_pipelines(self._status["pipelines"])


def _of_process(traffic: Traffic) -> Iterator[Metric]:
    answers = CounterMetricFamily(
        "memrelay_http_answers", "HTTP answers by status.", labels=["status"]
    )
    for status, count in traffic.answers.items():
        answers.add_metric([str(status)], count)
    yield answers
    yield GaugeMetricFamily(
        "memrelay_listeners", "WebSockets that follow a swarm.", traffic.listeners
    )
    dropped = traffic.dropped_listeners
    yield CounterMetricFamily(
        "memrelay_listeners_dropped", "WebSockets that were too slow.", dropped
    )
    yield GaugeMetricFamily(
        "memrelay_connections", "HTTP connections that are open.", traffic.connections
    )
    refused = CounterMetricFamily(
        "memrelay_connections_refused", "Connections that were cut.", labels=["reason"]
    )
    refused.add_metric(["too many"], traffic.turned_away)
    refused.add_metric(["too slow"], traffic.too_slow)
    yield refused


def _of_workers(workers: list[dict[str, Any]]) -> Iterator[Metric]:
    lag = GaugeMetricFamily(
        "memrelay_loop_lag_seconds",
        "The longest time by which a worker's event loop was late, of the last two seconds.",
        labels=["worker"],
    )
    recreated = CounterMetricFamily(
        "memrelay_groups_recreated",
        "Consumer groups that were gone and were made again.",
        labels=["worker"],
    )
    for one in workers:
        lag.add_metric([one["name"]], one["loop_lag_ms"] / 1000)
        recreated.add_metric([one["name"]], one["groups_recreated"])
    yield lag
    yield recreated


def _of_pipelines(pipelines: list[dict[str, Any]]) -> Iterator[Metric]:
    families: list[tuple[str, Metric]] = [
        (
            "in",
            CounterMetricFamily(
                "memrelay_inputs_in",
                "Inputs that were taken, since the owner began.",
                labels=BY_PIPELINE,
            ),
        ),
        (
            "dead",
            CounterMetricFamily(
                "memrelay_inputs_dead",
                "Inputs that were given up; the others that are done went well.",
                labels=BY_PIPELINE,
            ),
        ),
        (
            "duplicates",
            CounterMetricFamily(
                "memrelay_inputs_duplicate",
                "Inputs that were done before, and were answered from the inbox.",
                labels=BY_PIPELINE,
            ),
        ),
        (
            "pauses",
            CounterMetricFamily(
                "memrelay_batches_retried", "How often a batch was tried again.", labels=BY_PIPELINE
            ),
        ),
        (
            "handler_s",
            CounterMetricFamily(
                "memrelay_handler_seconds",
                "Time that batches took in the database thread.",
                labels=BY_PIPELINE,
            ),
        ),
        (
            "wal_bytes",
            GaugeMetricFamily("memrelay_wal_bytes", "Logs of the stores.", labels=BY_PIPELINE),
        ),
        (
            "outbox_bytes",
            GaugeMetricFamily(
                "memrelay_outbox_bytes", "What was sent and is not confirmed.", labels=BY_PIPELINE
            ),
        ),
        (
            "paused",
            GaugeMetricFamily(
                "memrelay_pipeline_paused",
                "Whether its work waits for something; /status says what.",
                labels=BY_PIPELINE,
            ),
        ),
        (
            "done",
            CounterMetricFamily(
                "memrelay_inputs_done",
                "Inputs that came to an end, since the owner began.",
                labels=BY_PIPELINE,
            ),
        ),
        (
            "retried",
            CounterMetricFamily(
                "memrelay_inputs_retried",
                "Inputs that were put off, to be tried again later.",
                labels=BY_PIPELINE,
            ),
        ),
        (
            "waiting",
            GaugeMetricFamily(
                "memrelay_inputs_waiting", "Inputs that wait to be tried again.", labels=BY_PIPELINE
            ),
        ),
        (
            "vectors_todo",
            GaugeMetricFamily(
                "memrelay_vectors_todo",
                "Records whose vector is still to be made.",
                labels=BY_PIPELINE,
            ),
        ),
        (
            "lag",
            GaugeMetricFamily(
                "memrelay_input_lag", "Inputs that are not done yet.", labels=BY_PIPELINE
            ),
        ),
        (
            "oldest_s",
            GaugeMetricFamily(
                "memrelay_input_oldest_seconds", "Age of the oldest of them.", labels=BY_PIPELINE
            ),
        ),
        (
            "dead_letters",
            GaugeMetricFamily(
                "memrelay_dead_letters", "Messages that were given up.", labels=BY_PIPELINE
            ),
        ),
        (
            "owned",
            GaugeMetricFamily(
                "memrelay_pipeline_owned", "Whether a worker serves it.", labels=BY_PIPELINE
            ),
        ),
    ]
    for key, family in families:
        for one in pipelines:
            value = (
                one["owner"] is not None
                if key == "owned"
                else bool(one[key])
                if key == "paused"
                else one[key]
            )
            family.add_metric([one["pipeline_uid"], one["name"]], value)  # type: ignore[attr-defined]
        yield family
