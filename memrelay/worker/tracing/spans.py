"""The spans of one input. They are exported once the batch has committed them."""

import re
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple
from zlib import crc32

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind

from memrelay.tracing import conventions
from memrelay.tracing.context import FIELD, is_sampled, to_context
from memrelay.tracing.provider import OPTIONS, TRACER, derive_trace_id, may_begin, start_root
from memrelay.worker.run.inputs import Entry, Input, Work

FIELD_NAME = FIELD.encode()
# Version, trace id, span id and flags.
TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
# An entry with the fields of the fast path has no further field.
FEWEST_FIELDS = 4


class FinishedSpan(NamedTuple):
    """A span that was ended at `end_ns` (Unix time) and is not exported yet."""

    span: Span
    end_ns: int

    def export(self) -> None:
        """End the span."""
        self.span.end(self.end_ns)


def finish(span: Span) -> FinishedSpan:
    """Return a span that ends now."""
    return FinishedSpan(span, time.time_ns())


def read_traceparent(work: Work) -> str:
    """Return the trace context with which an input came, "" for none or a malformed one."""
    if isinstance(work, Input):
        return work.traceparent
    if len(work.fields) <= FEWEST_FIELDS:
        return ""
    given = work.text(FIELD_NAME)
    return given if TRACEPARENT.fullmatch(given) else ""


def find_traced(works: Sequence[Work]) -> frozenset[str]:
    """Return the ids of the inputs that may have a span, or a trace context to keep.

    Most inputs of a batch are others, so this costs as little as possible.
    """
    limit = OPTIONS.root_bound >> 32
    return frozenset(
        one.id
        for one in works
        if one.__class__ is not Entry
        or crc32(one.id.encode()) <= limit
        or (len(one.fields) > FEWEST_FIELDS and FIELD_NAME in one.fields)
    )


def start_consumer(work: Work, traceparent: str) -> Span | None:
    """Return the span that processes an input, None if it is not sampled.

    An input without a trace begins one, whose id every repeat of its cascade derives again.
    """
    if traceparent:
        if OPTIONS.follows_parent and not is_sampled(traceparent):
            return None
        name = _name(work)
        span = TRACER.start_span(name, to_context(traceparent), SpanKind.CONSUMER)
    else:
        uid, ident = _find_root(work)
        if not may_begin(ident):
            return None
        span = start_root(derive_trace_id(uid, ident), _name(work), SpanKind.CONSUMER)
    if not span.is_recording():
        return None
    span.set_attributes(
        conventions.describe_message("process", _find_destination(work), work.plan.uid)
        | {conventions.MESSAGE_ID: work.id}
    )
    return span


def link(first: Span, second: Span) -> None:
    """Link two spans with each other."""
    first.add_link(second.get_span_context())
    second.add_link(first.get_span_context())


def use(span: Span) -> AbstractContextManager[Span]:
    """Return a context in which a span is active, which ends and marks nothing."""
    return trace.use_span(span, record_exception=False, set_status_on_exception=False)


def _name(work: Work) -> str:
    return f"process {_find_destination(work)}"


def _find_destination(work: Work) -> str:
    """Return the swarm, agent or operation to which an input is addressed."""
    if isinstance(work, Entry):
        return work.text(b"swarm") or work.text(b"agent") or work.text(b"op")
    return work.only_agent or work.swarm or (work.call.operation.name if work.call else "")


def _find_root(work: Work) -> tuple[str, str]:
    """Return the pipeline and id of the input with which a cascade began, also in public swarms."""
    if isinstance(work, Entry):
        origin = work.text(b"origin") if len(work.fields) > FEWEST_FIELDS else ""
        ident = work.id
    else:
        origin, ident = work.origin, work.root or work.id
    if origin:
        uid, _, ident = origin.partition("/")
        return uid, ident
    return work.plan.uid, ident
