"""The error dialect of Robutler's paths: `{"error": NAME, "detail": TEXT}`."""

from http import HTTPStatus

from memrelay.web.server.error_dialects import ErrorDialect, Json, describe_faults
from memrelay.web.server.errors import KeyReused

SCHEMA: Json = {
    "type": "object",
    "required": ["error", "detail"],
    "additionalProperties": False,
    "properties": {
        "error": {"type": "string", "description": "The name of the error, for example Denied."},
        "detail": {"type": "string", "description": "The problem and the fix."},
    },
}
NAMES = {
    400: "Invalid",
    403: "Denied",
    408: "Timeout",
    413: "TooLarge",
    429: "TooMany",
    500: "Internal",
    503: "Unavailable",
    504: "Timeout",
}
# Problems that Robutler's clients expect under another status: invalid content, another version.
STATUSES = {422: 400, 412: 409}


def to_robutler_error(problem: Json) -> tuple[int, Json]:
    """Return (status, body) of a problem. A reused idempotency key remains 422."""
    given = int(problem["status"])
    status = given if problem["title"] == KeyReused.title else STATUSES.get(given, given)
    name = NAMES.get(status) or HTTPStatus(status).phrase.title().replace(" ", "")
    return status, {"error": name, "detail": describe_faults(problem)}


ROBUTLER = ErrorDialect(
    "robutler",
    "RobutlerError",
    SCHEMA,
    to_robutler_error,
    prefixes=("/api/storage/memory", "/api/kv", "/api/tools/memory"),
)
