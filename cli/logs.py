"""The logs: one event a line on stderr, for people or for machines.

Whoever logs does so as the standard library has it: the name of an event, which is static, and its
data in `extra`.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal

from memrelay.cli.terminal.output import escaped

LogLevel = Literal["debug", "info", "warning", "error", "critical"]
LogFormat = Literal["console", "json"]

EVERY_RECORDS = vars(logging.makeLogRecord({})).keys() | {
    "message",
    "asctime",
}  # attributes; the rest is an event's data
QUOTED = frozenset(" \t=\r\n\"'")  # what a value cannot hold and stand in a line of others as it is
DIM, BOLD, KEY, VALUE = "2", "1", "36", "35"  # of a terminal (ECMA-48, SGR)
COLOURS = {"debug": "32", "info": "32", "warning": "33", "error": "31", "critical": "31"}


def configure_logging(level: LogLevel, format: LogFormat, *, may_colour: bool = False) -> None:
    """Sends every event of the process to stderr, what libraries log too; to be called once, before
    the first event.

    For people it is coloured where it `may_colour` and stderr is a terminal.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _ForMachines()
        if format == "json"
        else _ForPeople(coloured=may_colour and sys.stderr.isatty())
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class _ForMachines(logging.Formatter):
    """An object each."""

    def format(self, record: logging.LogRecord) -> str:
        event = {
            "timestamp": _time(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **_data(record),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event, default=repr)


class _ForPeople(logging.Formatter):
    """What callers sent stands on its event's line and does nothing to the terminal."""

    def __init__(self, coloured: bool) -> None:
        """`coloured` where it goes to a terminal."""
        super().__init__()
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        level, event = record.levelname.lower(), escaped(record.getMessage())
        words = [
            self._painted(DIM, _time(record)),
            f"[{self._painted(COLOURS.get(level, BOLD), f'{level:9}')}]",
            self._painted(BOLD, f"{event:30}"),
        ]
        words += [
            f"{self._painted(KEY, name)}={self._painted(VALUE, _shown(value))}"
            for name, value in sorted(_data(record).items())
        ]
        return "\n".join([" ".join(words).rstrip(), *self._trace(record)])

    def _painted(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._coloured else text

    def _trace(self, record: logging.LogRecord) -> list[str]:
        """A traceback, of which no line can be taken for an event: an error's text may have lines
        of its own."""
        told = self.formatException(record.exc_info) if record.exc_info else ""
        return [f"    {escaped(line)}" for line in told.splitlines()]


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _data(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in EVERY_RECORDS}


def _shown(value: Any) -> str:
    told = escaped(value if isinstance(value, str) else repr(value))
    return repr(told) if isinstance(value, str) and QUOTED.intersection(told) else told
