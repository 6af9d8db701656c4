"""A batch that records a span for each sampled input, linked with one span of the commit."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import orjson
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind

from memrelay.bus.keys import PublicSwarm
from memrelay.memory.engine.stores import OpenStores
from memrelay.tracing import conventions
from memrelay.tracing.context import MarkError, set_error, to_traceparent
from memrelay.tracing.provider import OPTIONS, TRACER
from memrelay.worker.run.batch import Batch, BatchResult
from memrelay.worker.run.cascade import Cascade
from memrelay.worker.run.causes import has_causes, note_cause
from memrelay.worker.run.inputs import Call, Entry, Input, Work
from memrelay.worker.run.outcome import Outcome
from memrelay.worker.tracing.cascade import TracedCascade
from memrelay.worker.tracing.spans import (
    FinishedSpan,
    find_traced,
    finish,
    link,
    read_traceparent,
    start_consumer,
    use,
)

ERROR_ANSWER = b'{"error":'


class TracedBatch(Batch):
    """Runs inputs as `Batch` does. Spans of a batch that is rolled back are dropped."""

    def __init__(self, work: Sequence[Work], *args: Any, **options: Any) -> None:
        super().__init__(work, *args, **options)
        # The ids of the inputs that do not run as in `Batch`.
        self._traced_ids = find_traced(work)
        # Runs them. The other cascade runs the rest, in the same transactions.
        self._traced: TracedCascade
        self._plain: Cascade
        # The spans since the last commit: those of the inputs, and all others.
        self._consumers: list[FinishedSpan] = []
        self._others: list[FinishedSpan] = []
        # By key: the last attempt of each failed input, its consumer first.
        self._failed: dict[str, list[FinishedSpan]] = {}

    def run(self, stores: OpenStores) -> BatchResult:
        """Commit everything that can run, as `Batch.run` does."""
        context = self._context
        self._traced = TracedCascade(
            stores, self._limits, context.public_limit, context.secrets, context.clock
        )
        return super().run(stores)

    def _run_together(self, count: int) -> tuple[int, Exception | SystemExit | None]:
        self._consumers.clear()
        self._others.clear()
        self._plain = self._cascade
        self._traced.touched, self._traced.laps = self._plain.touched, self._plain.laps
        try:
            return super()._run_together(count)
        finally:
            self._cascade = self._plain

    def _run_one(self, one: Work) -> Outcome:
        if one.id not in self._traced_ids:
            return super()._run_one(one)
        self._failed.pop(one.key, None)
        given = read_traceparent(one)
        span = start_consumer(one, given)
        # After an exception, the batch asks this cascade which agent has raised it.
        cascade = self._cascade = self._traced
        if span is None:
            cascade.traceparent, cascade.spans = given, None
            outcome = super()._run_one(one)
            outcome.traceparent = given
        else:
            cascade.traceparent, cascade.spans = to_traceparent(span), []
            outcome = self._run_in_span(one, span, cascade.spans)
        self._cascade = self._plain
        return outcome

    def _run_in_span(self, one: Work, span: Span, spans: list[FinishedSpan]) -> Outcome:
        """Run one input. `spans` gets those of its blocks."""
        has_ended = False
        try:
            with use(span), MarkError(span), self._note_trace(one):
                outcome = super()._run_one(one)
            has_ended = True
        finally:
            if not has_ended:
                self._failed[one.key] = [finish(span), *spans]
        outcome.traceparent = self._announce(span, outcome)
        self._others += spans
        self._consumers.append(finish(span))
        return outcome

    def _note_trace(self, one: Work) -> AbstractContextManager[None]:
        """Note the trace of an input for the deliveries of its changes."""
        if not has_causes(self._stores, one.plan):
            return nullcontext()
        traceparent = self._traced.traceparent
        return note_cause(self._stores, one.plan, self._traced.touched, traceparent=traceparent)

    def _announce(self, span: Span, outcome: Outcome) -> str:
        """Return the trace context for what follows. Messages on public swarms have a span."""
        if outcome.dead_letter is not None:
            set_error(span, conventions.DEAD_LETTER)
        names = [swarm.name for swarm, _ in outcome.messages if isinstance(swarm, PublicSwarm)]
        if not names:
            return to_traceparent(span)
        producer = TRACER.start_span(
            f"send {names[0]}",
            trace.set_span_in_context(span),
            SpanKind.PRODUCER,
            conventions.describe_message("send", names[0], outcome.uid),
        )
        producer.set_attribute(conventions.BATCH_COUNT, len(names))
        self._others.append(finish(producer))
        return to_traceparent(producer)

    def _answer(self, work: Input, call: Call) -> Outcome:
        if self._cascade is not self._traced or self._traced.spans is None:
            return super()._answer(work, call)
        attributes = conventions.describe_operation(call.operation.name, call.store, work.plan.uid)
        span = start_operation(attributes, call.data)
        try:
            with use(span), MarkError(span):
                outcome = super()._answer(work, call)
        finally:
            self._traced.spans.append(finish(span))
        end_operation(span, outcome.answer, outcome.store)
        return outcome

    def _commit(self, outcomes: Sequence[Outcome]) -> None:
        if not self._consumers:
            super()._commit(outcomes)
            return
        stores, began_ns = sorted(self._cascade.touched), time.time_ns()
        super()._commit(outcomes)
        first = trace.set_span_in_context(self._consumers[0].span)
        commit = TRACER.start_span("commit", first, start_time=began_ns)
        commit.set_attributes(
            {conventions.BATCH_COUNT: len(outcomes), conventions.STORES: ", ".join(stores)}
        )
        for consumer in self._consumers:
            link(consumer.span, commit)
        for finished in (*self._others, *self._consumers, finish(commit)):
            finished.export()
        self._consumers.clear()
        self._others.clear()

    def _decode(self, entry: Entry) -> Input:
        work = super()._decode(entry)
        work.traceparent = self._find_last_context(entry)
        return work

    def _run_alone(self, fault: Exception | SystemExit | None = None) -> None:
        one, before = self._rest[0], len(self._result.outcomes)
        super()._run_alone(fault)
        last = self._find_last_context(one)
        failed = self._failed.pop(one.key, None)
        new = self._result.outcomes[before:]
        for outcome in new:
            outcome.traceparent = outcome.traceparent or last
        if failed is None:
            return
        is_dead = any(outcome.dead_letter is not None for outcome in new)
        failure = conventions.DEAD_LETTER if is_dead else conventions.RETRY
        failed[0].span.set_attribute(conventions.FAILURE, failure)
        for finished in failed:
            finished.export()

    def _log_failure(self, one: Work, subscriber: str, fault: BaseException) -> None:
        if one.key not in self._failed:
            super()._log_failure(one, subscriber, fault)
            return
        with use(self._failed[one.key][0].span):
            super()._log_failure(one, subscriber, fault)

    def _find_last_context(self, one: Work) -> str:
        """Return the trace context of the last attempt of an input, else that of the input."""
        if failed := self._failed.get(one.key):
            return to_traceparent(failed[0].span)
        return read_traceparent(one)


def start_operation(attributes: dict[str, str], data: bytes, **place: Any) -> Span:
    """Start the span of an operation. `data` is its input as JSON, and `place` for the tracer."""
    memory_operation = attributes.get(conventions.MEMORY_OPERATION, "")
    span = TRACER.start_span(
        memory_operation or attributes[conventions.OPERATION], attributes=attributes, **place
    )
    if OPTIONS.captures_text and (query := conventions.find_query(data)):
        span.set_attribute(conventions.QUERY, query)
    return span


def end_operation(span: Span, answer: bytes, store: str) -> None:
    """Note the store of an operation, and whether its answer is an error. The span stays open."""
    span.set_attribute(conventions.STORE, store)
    if answer.startswith(ERROR_ANSWER):
        set_error(span, str(orjson.loads(answer)["error"]["code"]))
