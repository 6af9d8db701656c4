"""The error dialect of Pipelit's paths: `{"detail": TEXT}`."""

from memrelay.web.models.pipelit.sections import SECTIONS, WORKFLOWS
from memrelay.web.models.routes import CompatibleApi
from memrelay.web.server.error_dialects import ErrorDialect, Json, describe_faults
from memrelay.web.server.errors import NotAllowed, Unauthorized

SCHEMA: Json = {
    "type": "object",
    "required": ["detail"],
    "additionalProperties": False,
    "properties": {"detail": {"type": "string", "description": "The problem and the fix."}},
}
UNAUTHORIZED = "Invalid or missing API key."
# Pipelit has one role for memory. The text continues with the scope that the key lacks.
FORBIDDEN = "Admin access required."


def to_pipelit_error(problem: Json) -> tuple[int, Json]:
    """Return (status, body) of a problem."""
    detail = describe_faults(problem)
    if problem["title"] == Unauthorized.title:
        detail = UNAUTHORIZED
    elif problem["title"] == NotAllowed.title:
        detail = f"{FORBIDDEN} {detail[:1].upper()}{detail[1:]}"
    return int(problem["status"]), {"detail": detail}


PIPELIT = ErrorDialect(
    "pipelit",
    "PipelitError",
    SCHEMA,
    to_pipelit_error,
    prefixes=(*(path for section in SECTIONS for path in section.paths), WORKFLOWS),
    pipeline_parameter="pipeline",
)
ERRORS = {
    404: "The pipeline does not exist.",
    422: "A parameter or the body is invalid.",
    503: "No worker serves the pipeline.",
    504: "No answer in time.",
}
PIPELIT_API = CompatibleApi(PIPELIT, ERRORS, ERRORS)
