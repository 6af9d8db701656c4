"""Sends entries and calls with the trace context of the active span, in producer spans."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from msgspec.structs import replace
from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind

from memrelay.bus.request import NewCall, Report, Requester
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.ingress import Ingress
from memrelay.tracing import conventions
from memrelay.tracing.context import current_traceparent, open_span, to_context, to_traceparent


class TracedIngress(Ingress):
    """An ingress whose entries continue the trace of the active span."""

    async def append_all(self, entries: Sequence[NewEntry]) -> str:
        """Append entries as `Ingress.append_all` does."""
        if len(entries) == 1:
            return await self.append(entries[0])
        with _producing(entries[0], len(entries)) as span:
            traceparent = to_traceparent(span)
            return await super().append_all(
                [replace(entry, traceparent=traceparent) for entry in entries]
            )

    async def append(self, entry: NewEntry) -> str:
        """Append an entry as `Ingress.append` does."""
        with _producing(entry) as span:
            ident = await super().append(replace(entry, traceparent=to_traceparent(span)))
            span.set_attribute(conventions.MESSAGE_ID, ident)
            return ident


class TracedRequester(Requester):
    """A requester whose entries and calls continue the trace of the active span."""

    INGRESS = TracedIngress

    async def call(self, call: NewCall, timeout_s: float) -> Report:
        """Call an operation as `Requester.call` does."""
        if not call.mutates:
            call = replace(call, traceparent=current_traceparent())
        return await super().call(call, timeout_s)


def _producing(entry: NewEntry, count: int = 1) -> AbstractContextManager[Span]:
    """Open the producer span of an entry. That of a replay continues the trace of its message."""
    destination = entry.swarm or entry.agent or entry.op
    attributes: dict[str, str | int] = {
        **conventions.describe_message("send", destination, entry.uid)
    }
    if count > 1:
        attributes[conventions.BATCH_COUNT] = count
    if not entry.traceparent:
        return open_span(f"send {destination}", SpanKind.PRODUCER, attributes)
    here = trace.get_current_span().get_span_context()
    return open_span(
        f"send {destination}",
        SpanKind.PRODUCER,
        attributes,
        to_context(entry.traceparent),
        [Link(here)] if here.is_valid else (),
    )
