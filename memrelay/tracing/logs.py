"""Adds the ids of the active span to log records."""

import logging

from opentelemetry import trace


class TraceIds(logging.Filter):
    """Gives records the fields `trace_id` and `span_id` while a sampled span is active."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True: every record is logged."""
        context = trace.get_current_span().get_span_context()
        if context.is_valid and context.trace_flags.sampled:
            record.trace_id = trace.format_trace_id(context.trace_id)
            record.span_id = trace.format_span_id(context.span_id)
        return True


def add_trace_ids() -> None:
    """Let every log record of the process have these fields."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(TraceIds())
