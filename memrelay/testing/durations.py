"""Times and durations as tests write them."""

import re
from datetime import datetime, timedelta

from memrelay.memory.engine.timestamps import parse_ms

Duration = str | float | timedelta
UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
DURATION = re.compile("([0-9]{1,9}(?:[.][0-9]{1,6})?) ?([a-z]{1,3})")


def parse_duration_ms(duration: Duration) -> int:
    """Return the milliseconds of a text like "90s", "15m", "2h" or "1d", of seconds, or of a
    timedelta. Raises ValueError.
    """
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, str):
        match = DURATION.fullmatch(duration.strip())
        if match is None or match[2] not in UNITS_S:
            raise ValueError(
                f'{duration!r} is no duration; write it like "90s", with a unit of '
                f"{', '.join(UNITS_S)}"
            )
        seconds = float(match[1]) * UNITS_S[match[2]]
    else:
        seconds = float(duration)
    if seconds < 0:
        raise ValueError("time only goes forward: pass a positive duration")
    return round(1000 * seconds)


def parse_time_ms(time: str | datetime) -> int:
    """Return a time in RFC 3339, or a datetime with a time zone, as Unix ms. Raises ValueError."""
    found = parse_ms(time.isoformat() if isinstance(time, datetime) else time)
    if found is None:
        raise ValueError(f'{time!r} is no time with a zone; write it like "2026-03-01T08:00:00Z"')
    return found
