"""The format of log records on a terminal, in a file, or as JSON."""

import logging
from datetime import UTC, datetime
from typing import Any

import structlog
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_log_level
from structlog.types import EventDict, Processor, WrappedLogger

from memrelay.cli.logs import LogFormat
from memrelay.cli.terminal import escaped


def make_formatter(format: LogFormat, has_colors: bool) -> logging.Formatter:
    """Return the formatter of a log."""
    processors: list[Processor] = [
        ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
    ]
    if format == "json":
        processors.append(structlog.processors.JSONRenderer())
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=has_colors, exception_formatter=structlog.dev.plain_traceback
        )
        processors += [_escape, renderer]
    chain: list[Processor] = [ExtraAdder(), add_log_level, _add_time]
    return ProcessorFormatter(foreign_pre_chain=chain, processors=processors)


def _add_time(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    created = datetime.fromtimestamp(event["_record"].created, UTC)
    return {"timestamp": created.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), **event}


def _escape(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape control characters, so that no value acts on a terminal or imitates an event.

    Lines of a traceback are indented for the same reason.
    """
    shown = {name: _escaped(value) for name, value in event.items() if name != "exception"}
    if "exception" in event:
        lines = str(event["exception"]).splitlines()
        shown["exception"] = "\n".join(f"    {escaped(line)}" for line in lines)
    return shown


def _escaped(value: Any) -> Any:
    if isinstance(value, bool | int | float | None):
        return value
    return escaped(value if isinstance(value, str) else repr(value))
