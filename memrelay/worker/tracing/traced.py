"""Everything that a worker with tracing replaces."""

from memrelay.tracing.requester import TracedRequester
from memrelay.worker.tracing.batch import TracedBatch
from memrelay.worker.tracing.deferred_calls import execute_traced
from memrelay.worker.tracing.queries import TracedQueries

# Loaded with the first endpoint.
SENDER = "memrelay.worker.endpoints.traced_sender:TracedSender"

__all__ = ["SENDER", "TracedBatch", "TracedQueries", "TracedRequester", "execute_traced"]
