"""The error dialect of Pipelit's paths: `{"detail": TEXT}`."""

from memrelay.web.pipelit.paths import SECTIONS, WORKFLOWS
from memrelay.web.server.error_dialects import ErrorDialect, Json, describe_faults

SCHEMA: Json = {
    "type": "object",
    "required": ["detail"],
    "additionalProperties": False,
    "properties": {"detail": {"type": "string", "description": "The problem and the fix."}},
}
UNAUTHORIZED = "Invalid or missing API key."
# Pipelit has one role for memory; Memrelay names the scope that the key lacks.
FORBIDDEN = "Admin access required."


def to_pipelit_error(problem: Json) -> tuple[int, Json]:
    """Return (status, body) of a problem."""
    status, detail = int(problem["status"]), describe_faults(problem)
    if status == 401:
        detail = UNAUTHORIZED
    elif status == 403:
        detail = f"{FORBIDDEN} {detail}"
    return status, {"detail": detail}


PIPELIT = ErrorDialect(
    "pipelit",
    "PipelitError",
    SCHEMA,
    to_pipelit_error,
    prefixes=(*(path for section in SECTIONS for path in section.paths), WORKFLOWS),
    pipeline_parameter="pipeline",
)
