"""A cascade that records a span for each call of a block."""

from dataclasses import replace
from functools import partial
from typing import Any

from opentelemetry.trace import Span

from memrelay.blocks.contract import BlockArgs, Call
from memrelay.bus.message import Message
from memrelay.pipelines.plan import PlannedAgent
from memrelay.tracing import conventions
from memrelay.tracing.context import MarkError
from memrelay.tracing.provider import OPTIONS, TRACER
from memrelay.worker.run.cascade import Cascade
from memrelay.worker.run.inputs import Input
from memrelay.worker.run.outcome import Outcome
from memrelay.worker.tracing.spans import FinishedSpan, finish, use


class TracedCascade(Cascade):
    """Keeps the trace context of the current input in its continuations.

    `traceparent` is that context, and `spans` gets the spans of its blocks. It is None for an
    input that is not sampled.
    """

    traceparent = ""
    spans: list[FinishedSpan] | None = None

    def run(self, work: Input) -> Outcome:
        """Run an input as `Cascade.run` does."""
        work.traceparent = self.traceparent
        return super().run(work)

    def _deliver(self, subscriber: PlannedAgent, swarm: str, message: Message, hop: int) -> None:
        if self.spans is not None:
            handle = partial(self._handle, subscriber)
            subscriber = replace(subscriber, handle=handle)
        super()._deliver(subscriber, swarm, message, hop)

    def _handle(self, subscriber: PlannedAgent, call: Call, args: BlockArgs) -> Any:
        """Call a block in its span."""
        assert self.spans is not None
        span = _start(subscriber, call)
        try:
            with use(span), MarkError(span):
                answer = subscriber.handle(call, args)
        finally:
            self.spans.append(finish(span))
        if OPTIONS.captures_text and isinstance(answer, Message):
            span.set_attribute(
                conventions.OUTPUT, conventions.format_messages("assistant", answer.text)
            )
        return answer


def _start(subscriber: PlannedAgent, call: Call) -> Span:
    """Start the span of a block's call below the active one."""
    operation = conventions.BLOCKS.get(subscriber.block, "")
    attributes = {
        conventions.PIPELINE: subscriber.agent.pipeline,
        conventions.AGENT: subscriber.agent.alias,
        conventions.BLOCK: subscriber.block,
    }
    if subscriber.store:
        attributes[conventions.STORE] = subscriber.store
    if operation:
        attributes[conventions.MEMORY_OPERATION] = operation
    if OPTIONS.captures_text:
        text = call.message.text
        attributes[conventions.INPUT] = conventions.format_messages("user", text)
        if operation == conventions.SEARCH:
            attributes[conventions.QUERY] = text
    return TRACER.start_span(operation or f"block {subscriber.block}", attributes=attributes)
