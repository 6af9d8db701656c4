"""The logs: one event a line on stderr, for people or for machines."""

import logging
import sys
from io import StringIO
from typing import TextIO

import structlog
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from cli.output import escaped
from cli.settings import LogFormat, LogLevel


def configure_logging(level: LogLevel, format: LogFormat) -> None:
    """Sends every structlog logger of the process to stderr; to be called once, before the first event."""
    # Plain tracebacks in both: the pretty ones print local variables, and those hold messages and secrets.
    render: list[Processor] = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    if format == "console":
        render = [_escape, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_indented)]
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


def _escape(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """What callers sent stands on its event's line and does nothing to the terminal. In JSON it never could."""
    return {name: escaped(value) if isinstance(value, str) else value for name, value in event.items()}


def _indented(output: TextIO, exc_info: ExcInfo) -> None:
    """A traceback, of which no line can be taken for an event: an error's text may have lines of its own."""
    told = StringIO()
    structlog.dev.plain_traceback(told, exc_info)
    output.write("\n".join(f"    {escaped(line)}" for line in told.getvalue().splitlines()))
