"""Deferred calls that record a span and continue the trace of their message."""

from opentelemetry.trace import SpanKind

from memrelay.bus.codec import find_traceparent
from memrelay.memory.engine.inbox import Pending
from memrelay.pipelines.plan import PlannedAgent
from memrelay.tracing import conventions
from memrelay.tracing.context import open_span, to_context
from memrelay.worker.deferred_calls.bus_operations import BusOperations
from memrelay.worker.deferred_calls.execute import execute


async def execute_traced(
    bus: BusOperations, pending: Pending, subscriber: PlannedAgent, max_bytes: int
) -> bytes:
    """Return the result of a deferred call as `execute` does, in a span of its own."""
    if not (traceparent := find_traceparent(pending.data)):
        return await execute(bus, pending, subscriber, max_bytes)
    attributes = {
        conventions.PIPELINE: pending.pipeline,
        conventions.AGENT: pending.agent,
        conventions.BLOCK: subscriber.block,
        conventions.MESSAGE_ID: pending.root,
    }
    name = f"deferred call {subscriber.block}"
    with open_span(name, SpanKind.CLIENT, attributes, to_context(traceparent)):
        return await execute(bus, pending, subscriber, max_bytes)
