"""A finding: what was looked at, whether it is well, and what to do where it is not."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.cli.settings import Settings

SOME = 5  # that are named, of many

Level = Literal["ok", "warning", "fault"]


class Finding(NamedTuple):
    """One thing that was looked at."""

    check: str
    level: Level
    text: str
    remedy: str = ""  # what to do; "" where all is well


class DoctorContext(NamedTuple):
    """What is looked at where a bus answers."""

    settings: Settings
    line: ReconnectingConnection


Check = Callable[[Settings], Awaitable[list[Finding]]]
BusCheck = Callable[[DoctorContext], Awaitable[list[Finding]]]


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, "ok", text)


def warning(check: str, text: str, remedy: str) -> Finding:
    """It works, but something may be lost, or will not work for long."""
    return Finding(check, "warning", text, remedy)


def fault(check: str, text: str, remedy: str) -> Finding:
    """It does not work, or what is acknowledged may be lost."""
    return Finding(check, "fault", text, remedy)


def unknown_finding(check: str, what: str, command: str) -> Finding:
    """Managed servers and ACLs refuse some commands, so it is no fault."""
    return warning(
        check,
        f"the server does not tell {what}",
        f"allow {command} to this user, or look where the server is run",
    )


def some_of(names: Sequence[str]) -> str:
    """The first few of them, as a list."""
    return f"{', '.join(names[:SOME])}{', ...' if len(names) > SOME else ''}"
