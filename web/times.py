"""Times as the API tells them."""
from datetime import UTC, datetime


def as_time(unix_ms: int) -> str:
    """ISO 8601 in UTC, to the millisecond: 2026-11-22T05:00:00.000Z."""
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
