"""Read the times of other systems."""

import math
import re
from datetime import UTC, datetime

from memrelay.memory.engine.timestamps import LAST_MS
from memrelay.memory.transfer.importers.items import LeftOut

# From this number on, Unix time is in milliseconds: 5138-11-16 in seconds, 1973-03-03 in ms.
FIRST_MS = 100_000_000_000
_NUMBER = re.compile(r"\d{1,15}(\.\d{1,9})?", re.ASCII)


def read_time(given: object) -> int | None:
    """Return Unix ms, None for an absent time (None or an empty text).

    Accepted: RFC 3339, ISO 8601 (without a zone in UTC), Unix seconds, Unix milliseconds.

    Raises LeftOut.
    """
    if given is None or given == "":
        return None
    if isinstance(given, str) and _NUMBER.fullmatch(given):
        given = float(given)
    found = None
    if isinstance(given, float) and not math.isfinite(given):
        raise _unknown_form(given)
    if isinstance(given, int | float) and not isinstance(given, bool):
        found = round(given if given >= FIRST_MS else given * 1000)
    elif isinstance(given, str):
        found = _read_iso(given.strip())
    if found is None:
        raise _unknown_form(given)
    if not 0 <= found <= LAST_MS:
        raise LeftOut(f"the date {_shown(given)} is not between the years 1970 and 9999")
    return found


def _unknown_form(given: object) -> LeftOut:
    return LeftOut(f"the date {_shown(given)} has an unknown form")


def _read_iso(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text.upper())
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _shown(given: object) -> str:
    if isinstance(given, str):
        shown = given[:40].encode(errors="backslashreplace").decode()
        return f'"{shown}"'
    return str(given)[:40]
