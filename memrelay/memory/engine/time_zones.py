"""Time zones by their IANA names, such as Europe/Berlin.

The days of a query begin at midnight in its zone. Stored and returned times are UTC.
"""

from datetime import UTC, tzinfo
from functools import lru_cache
from typing import Annotated
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, Field

from memrelay.memory.errors import Refused
from memrelay.memory.validation import find_closest

DEFAULT_ZONE = "UTC"
MAX_NAME_CHARACTERS = 64
NEAR = 0.75  # Similarity of a suggested name.
# Names in the database that mean another zone on each machine.
MACHINE_ZONES = ("localtime", "posixrules")


@lru_cache(maxsize=64)
def find_zone(name: str) -> tzinfo:
    """Return the zone with this name, UTC for "". Raises Refused: there is none."""
    if name in ("", DEFAULT_ZONE):
        return UTC
    try:
        if name.isascii() and len(name) <= MAX_NAME_CHARACTERS and name not in MACHINE_ZONES:
            return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        # Unknown; a folder of the database; a path that leaves it.
        pass
    raise Refused(f"unknown time zone {name[:MAX_NAME_CHARACTERS]!r}; {_advise(name)}")


def _advise(name: str) -> str:
    names = available_timezones()
    if not names:
        return "this machine has no time zones: install its package tzdata, or use UTC"
    near = find_closest(name, names, NEAR)
    return f"did you mean {near!r}?" if near else "use a name like 'Europe/Berlin', or 'UTC'"


def check_zone(name: str) -> str:
    """Return the name of a zone, or "". Raises Refused, a ValueError: no zone has it."""
    find_zone(name)
    return name


# "" for the default of the reader.
MaybeZone = Annotated[str, AfterValidator(check_zone), Field(max_length=MAX_NAME_CHARACTERS)]
