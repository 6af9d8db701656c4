"""Times as faces tell them."""
from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]   # RFC 3339 in UTC, to the millisecond


def as_time(unix_ms: int) -> str:
    """A `Moment`: 2026-11-22T05:00:00.000Z."""
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
