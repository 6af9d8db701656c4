"""The logs: one event a line on stderr, for people or for machines."""

import logging
import sys

import structlog
from structlog.typing import Processor

from cli.settings import LogFormat, LogLevel


def configure_logging(level: LogLevel, format: LogFormat) -> None:
    """Sends every structlog logger of the process to stderr; to be called once, before the first event."""
    # Plain tracebacks in both: the pretty ones print local variables, and those hold messages and secrets.
    render: list[Processor] = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    if format == "console":
        plain = structlog.dev.plain_traceback
        render = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
