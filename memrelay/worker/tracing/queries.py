"""Queries that record a span for each sampled read-only call."""

import asyncio
import time
from collections.abc import Sequence

from memrelay.tracing import conventions
from memrelay.tracing.context import to_context
from memrelay.worker.run.queries import Queries, Query
from memrelay.worker.tracing.batch import end_operation, start_operation


class TracedQueries(Queries):
    """Answers queries as `Queries` does."""

    async def _answer(self, queries: Sequence[Query]) -> list[bytes | None]:
        answers = await super()._answer(queries)
        for query, answer in zip(queries, answers, strict=False):
            traceparent = query.question.traceparent
            if answer is not None and isinstance(traceparent, str):
                _record(query, answer, traceparent)
        return answers


def _record(query: Query, answer: bytes, traceparent: str) -> None:
    """Export the span of an answered query, from its arrival on."""
    waited_s = asyncio.get_running_loop().time() - query.until + query.question.within_ms / 1000
    attributes = conventions.describe_operation(
        query.operation.name, query.memory_id, query.plan.uid
    )
    span = start_operation(
        attributes,
        bytes(query.question.input),
        context=to_context(traceparent),
        start_time=time.time_ns() - int(waited_s * 1e9),
    )
    end_operation(span, answer, query.memory_id)
    span.end()
