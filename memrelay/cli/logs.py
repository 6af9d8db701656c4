"""Logs: structlog events and standard-library records, one line each on stderr.

Modules log with `memrelay.logs.get_logger(__name__)`. Both kinds of events become standard-library
records and pass the same processors (log_format.py).
"""

import importlib
import logging
import sys
from typing import Literal

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
    has_colors = may_color and sys.stderr.isatty()
    handler.setFormatter(_LateFormatter(format, has_colors=has_colors))
    if collapses:
        handler.addFilter(CollapseRepeats())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class _LateFormatter(logging.Formatter):
    """A formatter that is made for the first record, because it imports structlog."""

    def __init__(self, format: LogFormat, *, has_colors: bool) -> None:
        super().__init__()
        self._format, self._has_colors = format, has_colors
        self._made: logging.Formatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        if self._made is None:
            module = importlib.import_module("memrelay.cli.log_format")
            self._made = module.make_formatter(self._format, self._has_colors)
        return self._made.format(record)


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
