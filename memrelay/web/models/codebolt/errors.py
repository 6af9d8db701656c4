"""The error dialect of Codebolt's paths: `{"success": false, "error": TEXT, "errors": [...]}`."""

from memrelay.web.models.routes import CompatibleApi
from memrelay.web.server.error_dialects import ErrorDialect, Json

SCHEMA: Json = {
    "type": "object",
    "required": ["success", "error", "errors"],
    "additionalProperties": False,
    "properties": {
        "success": {"type": "boolean", "const": False},
        "error": {"type": "string", "description": "The problem and the fix."},
        "errors": {
            "type": "array",
            "description": "All faults of the request, empty if no single field is at fault.",
            "items": {
                "type": "object",
                "required": ["path", "code", "message"],
                "additionalProperties": False,
                "properties": {
                    "path": {"type": "string", "description": "A JSON pointer into the request."},
                    "code": {"type": "string", "description": "For example `required`."},
                    "message": {"type": "string"},
                },
            },
        },
    },
}
# The rule that the validation of inputs reports for an absent field.
MISSING = "is missing"


def to_codebolt_error(problem: Json) -> tuple[int, Json]:
    """Return (status, body) of a problem."""
    faults = problem.get("faults", [])
    error = str(problem["detail"])
    if faults and not all("code" in fault for fault in faults):
        # The text of the input's validation names the operation and other fields.
        error = f"the request has {len(faults)} error{'s' * (len(faults) > 1)}"
    elif faults:
        # What follows names fields of the operation; `errors` name those of the request.
        error = error.partition("; /")[0]
    errors = [_to_error(fault) for fault in faults]
    return int(problem["status"]), {"success": False, "error": error, "errors": errors}


def _to_error(fault: dict[str, str]) -> dict[str, str]:
    rule, path = fault["rule"], fault["pointer"]
    default_code = "required" if rule == MISSING else "bad_param"
    if "code" not in fault:
        rule = f"{path.rpartition('/')[2]} {rule}".strip()
    message = f"{rule}; {fault['suggestion']}" if fault["suggestion"] else rule
    return {"path": path, "code": fault.get("code", default_code), "message": message}


CODEBOLT = ErrorDialect(
    "codebolt",
    "CodeboltError",
    SCHEMA,
    to_codebolt_error,
    prefixes=(
        "/persistent-memory",
        "/kvstore",
        "/eventlog",
        "/kg",
        "/context-assembly",
        "/context-rule-engine",
    ),
    pipeline_parameter="project_id",
    pipeline_header="x-project-id",
)
ERRORS = {
    404: "The pipeline or the object does not exist.",
    422: "The input is invalid or was rejected. `errors` lists all faults.",
    503: "No worker serves the pipeline, or it is overloaded. Nothing was done.",
    504: "No answer in time. Retry-After tells when to retry.",
}
CODEBOLT_API = CompatibleApi(CODEBOLT, ERRORS, ERRORS)
