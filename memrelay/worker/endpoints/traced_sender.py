"""Deliveries that record a span in the trace of the input that caused them."""

from dataclasses import replace
from urllib.parse import urlsplit

from opentelemetry import trace

from memrelay.guarded_http.client import Request as HttpRequest
from memrelay.memory.models.endpoints.outbox import Request
from memrelay.memory.models.endpoints.schedule import Answer
from memrelay.tracing import conventions
from memrelay.tracing.context import FIELD, current_traceparent, open_delivery, set_error
from memrelay.worker.endpoints.sender import Sender

STATUS, ADDRESS = "http.response.status_code", "server.address"
NO_ANSWER = "no_answer"


class TracedSender(Sender):
    """Makes requests as `Sender` does, each try in a span if its input has one."""

    async def send(self, request: Request) -> Answer:
        """Make one try as `Sender.send` does."""
        if not request.cause.traceparent:
            return await super().send(request)
        with open_delivery(request.cause.traceparent, "") as span:
            span.set_attribute(conventions.PIPELINE, self._uid)
            span.set_attribute(conventions.MESSAGE_ID, request.delivery.id)
            answer = await super().send(request)
            if answer.status:
                span.set_attribute(STATUS, answer.status)
            if not answer.is_success:
                set_error(span, str(answer.status) if answer.status else NO_ANSWER)
            return answer

    async def _prepare(self, request: Request) -> HttpRequest:
        prepared = await super()._prepare(request)
        if request.cause.traceparent:
            host = urlsplit(prepared.url).hostname or ""
            trace.get_current_span().set_attribute(ADDRESS, host)
            headers = {**prepared.headers, FIELD: current_traceparent()}
            prepared = replace(prepared, headers=headers)
        return prepared
