"""The checks of `memrelay doctor`, one file per topic, and the findings that they return."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.cli.settings import Settings

# Names that one finding lists.
MAX_LISTED = 5

Level = Literal["ok", "warning", "fault"]


class Finding(NamedTuple):
    """The result of one check. `remedy` is the fix for a problem, or "" without one."""

    check: str
    level: Level
    text: str
    remedy: str = ""


class DoctorContext(NamedTuple):
    """The settings, and a connection to a bus that answers."""

    settings: Settings
    connection: ReconnectingConnection


Check = Callable[[Settings], Awaitable[list[Finding]]]
BusCheck = Callable[[DoctorContext], Awaitable[list[Finding]]]


def ok(check: str, text: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(check, "ok", text)


def warning(check: str, text: str, remedy: str) -> Finding:
    """Return a finding about something that works now, but risks data or will soon fail."""
    return Finding(check, "warning", text, remedy)


def fault(check: str, text: str, remedy: str) -> Finding:
    """Return a finding about something that fails, or that risks acknowledged data."""
    return Finding(check, "fault", text, remedy)


def unknown(check: str, what: str, command: str) -> Finding:
    """Return a warning that the server refuses a command.

    It is not a fault: managed servers and ACLs refuse some commands.
    """
    return warning(
        check,
        f"the server does not report {what}",
        f"allow {command} for this user, or check it in the server's administration",
    )


def join_names(names: Sequence[str]) -> str:
    """Return the first MAX_LISTED names, separated by commas."""
    return f"{', '.join(names[:MAX_LISTED])}{', ...' if len(names) > MAX_LISTED else ''}"
