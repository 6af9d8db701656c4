"""Logs: structlog events and standard-library records, one line each on stderr.

Modules log with `structlog.stdlib.get_logger(__name__)`: a static event name, and data as keywords.
Both kinds of events become standard-library records and pass the same processors.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal

import structlog
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_log_level
from structlog.types import EventDict, Processor, WrappedLogger

from memrelay.cli.terminal import escaped

# Repeated events are left out for so long. The next one says how many.
COLLAPSE_S = 60.0
# Different events that are remembered.
MAX_EVENTS = 256
LogLevel = Literal["debug", "info", "warning", "error", "critical"]
LogFormat = Literal["console", "json"]


def configure_logging(
    level: LogLevel, format: LogFormat, *, may_color: bool = False, collapses: bool = True
) -> None:
    """Send every event of the process to stderr. Call it once, before the first event.

    The console format has colors if `may_color` is true and stderr is a terminal. `collapses`
    leaves out repeated reasons.
    """
    handler = logging.StreamHandler(sys.stderr)
    processors: list[Processor] = [
        ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
    ]
    if format == "json":
        processors.append(structlog.processors.JSONRenderer())
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=may_color and sys.stderr.isatty(),
            exception_formatter=structlog.dev.plain_traceback,
        )
        processors += [_escape, renderer]
    chain: list[Processor] = [ExtraAdder(), add_log_level, _add_time]
    if collapses:
        handler.addFilter(CollapseRepeats())
    handler.setFormatter(ProcessorFormatter(foreign_pre_chain=chain, processors=processors))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    route_to_standard_library()


class CollapseRepeats(logging.Filter):
    """Leave out a warning or error that gives the same reason again within COLLAPSE_S.

    The next one has the field `repeated`, the number of those that were left out. Events of single
    messages, which have a `message_id`, are all kept.
    """

    def __init__(self) -> None:
        super().__init__()
        # By event: when it was last logged, and how often it was left out since then.
        self._last: dict[tuple[object, ...], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is logged."""
        fields = record.__dict__
        reason = fields.get("reason", fields.get("exit_code"))
        if record.levelno < logging.WARNING or reason is None or "message_id" in fields:
            return True
        key = record.name, record.msg, str(reason), str(fields.get("pipeline"))
        logged_at, left_out = self._last.pop(key, (float("-inf"), 0))
        is_new = record.created - logged_at >= COLLAPSE_S
        self._last[key] = (record.created, 0) if is_new else (logged_at, left_out + 1)
        if len(self._last) > MAX_EVENTS:
            del self._last[next(iter(self._last))]
        if is_new and left_out:
            record.repeated = left_out
        return is_new


def route_to_standard_library() -> None:
    """Make structlog events records of the standard library, for programs that embed Memrelay."""
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


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
