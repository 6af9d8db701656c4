"""Format and parse timestamps."""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated

from pydantic import Field

# RFC 3339 in UTC, with milliseconds.
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
# The end of the year 9999, the last time that RFC 3339 can express.
LAST_MS = 253_402_300_799_999

# The number of a change, in place of a time.
CHANGE_NUMBER = re.compile(r"n:(\d{1,18})", re.ASCII)

_RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d([Tt]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)?)?", re.ASCII
)
_UNIX_MS = re.compile(r"\d{1,18}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_time(unix_ms: int) -> str:
    """Return Unix ms as a `Moment`: 2026-11-22T05:00:00.000Z.

    Times out of range become the first or last valid time. A client can cause one with a message id
    in microseconds.
    """
    valid_ms = min(max(unix_ms, 0), LAST_MS)
    # A float of seconds loses milliseconds for times centuries from now.
    moment = _EPOCH + timedelta(milliseconds=valid_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def malformed_as_of(text: str) -> str:
    """Return the rule that a text for `as_of` breaks."""
    return (
        f"{text[:100]!r} is no time for `as_of`: use RFC 3339 as in 2026-11-24T09:00:00Z, Unix ms, "
        "or the number of a change as in n:1204"
    )


def next_change_ms(now_ms: int, before_ms: int) -> int:
    """Return the time of a change, at least 1 ms after the previous one, so that
    versions differ.
    """
    return max(now_ms, before_ms + 1)


def parse_ms(text: str, zone: tzinfo = UTC) -> int | None:
    """Parse a date, a date and time, or Unix ms, and return Unix ms. None if invalid.

    A date means its first moment. The time is in `zone` unless the text names an offset. Of a local
    time that occurs twice, the first counts.
    """
    if _UNIX_MS.fullmatch(text):
        return int(text)
    unix_us = parse_us(text, zone)
    # Round up: comparisons with whole milliseconds keep their result.
    return None if unix_us is None else -(-unix_us // 1000)


def parse_us(text: str, zone: tzinfo = UTC) -> int | None:
    """Parse a date or a date and time, and return Unix microseconds. None if invalid.

    A date means its first moment. The time is in `zone` unless the text names an offset.
    """
    if not _RFC_3339.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        # An invalid date, such as February 30.
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=zone)) - _EPOCH) // timedelta(
        microseconds=1
    )
