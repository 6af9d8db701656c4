"""Times as faces tell them, and as people write them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import Field

Moment = Annotated[
    str, Field(json_schema_extra={"format": "date-time"})
]  # RFC 3339 in UTC, to the millisecond
LAST_MS = 253_402_300_799_999  # the end of the year 9999, after which there is no RFC 3339

_RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d([Tt]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)?)?", re.ASCII
)
_UNIX_MS = re.compile(r"\d{1,18}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_time(unix_ms: int) -> str:
    """A `Moment`: 2026-11-22T05:00:00.000Z. What lies beyond, as of a client that gave its message
    an id in microseconds, is
    told as the end, so that it can be told at all.
    """
    known = min(max(unix_ms, 0), LAST_MS)
    moment = _EPOCH + timedelta(
        milliseconds=known
    )  # a float of seconds, centuries from now, lacks some of the ms
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def change_ms(now_ms: int, before_ms: int) -> int:
    """When something changes that changed last at `before_ms`: never the same ms, of which its
    version is made."""
    return max(now_ms, before_ms + 1)


def as_ms(text: str) -> int | None:
    """Unix ms of a date (its first moment, in UTC), of a date and time (in UTC unless it says
    otherwise), or of Unix ms."""
    if _UNIX_MS.fullmatch(text):
        return int(text)
    unix_us = as_us(text)
    return (
        None if unix_us is None else -(-unix_us // 1000)
    )  # upwards: for whole ms both comparisons stay what they were


def as_us(text: str) -> int | None:
    """Unix microseconds of a date (its first moment, in UTC), or of a date and time (in UTC unless
    it says otherwise)."""
    if not _RFC_3339.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        return None  # like the 30th of February
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(
        microseconds=1
    )
