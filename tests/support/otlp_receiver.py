"""A receiver of OTLP over HTTP on loopback, which keeps the spans that it gets."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.support.waiting import wait_for

# The time between two exports.
EXPORT_S = 0.02
ERROR = trace_pb2.Status.STATUS_CODE_ERROR
KINDS = {
    trace_pb2.Span.SPAN_KIND_INTERNAL: "internal",
    trace_pb2.Span.SPAN_KIND_SERVER: "server",
    trace_pb2.Span.SPAN_KIND_CLIENT: "client",
    trace_pb2.Span.SPAN_KIND_PRODUCER: "producer",
    trace_pb2.Span.SPAN_KIND_CONSUMER: "consumer",
}


class ReceivedSpan(NamedTuple):
    """A span; ids are hexadecimal, and `parent` is "" for a root. `links` are ids of spans."""

    trace: str
    id: str
    parent: str
    name: str
    kind: str
    attributes: dict[str, str | int]
    links: tuple[str, ...]
    failed: bool

    @classmethod
    def parse(cls, span: trace_pb2.Span) -> Self:
        values = {
            one.key: getattr(one.value, str(one.value.WhichOneof("value")))
            for one in span.attributes
        }
        return cls(
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.name,
            KINDS[span.kind],
            values,
            tuple(link.span_id.hex() for link in span.links),
            span.status.code == ERROR,
        )


class OtlpReceiver(ThreadingHTTPServer):
    """Listens on a free port."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[bytes] = []
        self.resources: list[dict[str, str]] = []
        self._spans: list[ReceivedSpan] = []

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of a process that exports to this receiver at once."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.server_port}",
            "OTEL_BSP_SCHEDULE_DELAY": str(int(1000 * EXPORT_S)),
        }

    @property
    def spans(self) -> list[ReceivedSpan]:
        return list(self._spans)

    def take(self, body: bytes) -> None:
        """Keep the spans of a request."""
        request = ExportTraceServiceRequest.FromString(body)
        self.bodies.append(body)
        for resource in request.resource_spans:
            fields = resource.resource.attributes
            self.resources.append({one.key: one.value.string_value for one in fields})
            for scope in resource.scope_spans:
                self._spans += map(ReceivedSpan.parse, scope.spans)

    def of_trace(self, trace: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.trace == trace]

    def await_span(self, fits: Callable[[ReceivedSpan], bool], what: str) -> ReceivedSpan:
        """Return the first span that fits, as soon as it is there."""
        wait_for(lambda: any(map(fits, self.spans)), f"the span of {what} arrives")
        return next(filter(fits, self.spans))


class _Handler(BaseHTTPRequestHandler):
    server: OtlpReceiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert self.path == "/v1/traces", self.path
        self.server.take(body)
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def receive_spans() -> Iterator[OtlpReceiver]:
    """Run a receiver."""
    with OtlpReceiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()
