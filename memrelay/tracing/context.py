"""The trace context of W3C in messages: the field, header and key `traceparent`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from memrelay.tracing.conventions import OPERATION_NAME, OPERATION_TYPE, SYSTEM, SYSTEM_NAME
from memrelay.tracing.provider import TRACER

FIELD = "traceparent"
# Where the flags stand in a traceparent: 00-<trace id>-<span id>-<flags>.
FLAGS = slice(53, 55)
_propagator = TraceContextTextMapPropagator()


def to_context(traceparent: str) -> Context:
    """Return the context of a traceparent. A malformed one is ignored."""
    return _propagator.extract({FIELD: traceparent}, Context())


def is_sampled(traceparent: str) -> bool:
    """Return whether the flags of a traceparent mark its trace as sampled."""
    try:
        return bool(int(traceparent[FLAGS], 16) & 1)
    except ValueError:
        return False


def to_traceparent(span: Span) -> str:
    """Return the traceparent of a span, "" if it belongs to no trace."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier.get(FIELD, "")


def current_traceparent() -> str:
    """Return the traceparent of the active span, "" if there is none."""
    return to_traceparent(trace.get_current_span())


def set_error(span: Span, kind: str) -> None:
    """Mark a span as failed. `kind` is a code or the name of a class, never a message's text."""
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))


class MarkError:
    """Marks a span as failed if an exception leaves the context: with its class, not its text."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            set_error(self._span, kind.__name__)


@contextmanager
def open_span(
    name: str,
    kind: SpanKind,
    attributes: Mapping[str, AttributeValue],
    parent: Context | None = None,
    links: Sequence[Link] = (),
) -> Iterator[Span]:
    """Open a span below `parent`, by default below the active one, and make it the active one.

    An exception marks it as failed, without its text, and passes through.
    """
    with (
        TRACER.start_as_current_span(
            name,
            parent,
            kind,
            attributes,
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span,
        MarkError(span),
    ):
        yield span


def open_delivery(traceparent: str, address: str) -> AbstractContextManager[Span]:
    """Open the span of a request that leaves Memrelay because of an input.

    `traceparent` is what the delivery has kept of its input (`Outcome.traceparent`), and `address`
    the host. Inside, `current_traceparent` returns the header for the request.
    """
    attributes = {SYSTEM: SYSTEM_NAME, OPERATION_TYPE: "send", OPERATION_NAME: "deliver"}
    attributes["server.address"] = address
    return open_span("deliver", SpanKind.PRODUCER, attributes, to_context(traceparent))
