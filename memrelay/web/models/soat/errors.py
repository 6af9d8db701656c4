"""The error dialects of SOAT's paths. `detail` states the problem and the fix.

The original paths return `{"error": "...", "detail": "..."}`. The paths of later SOAT versions
return `{"error": {"code": "...", "message": "...", "meta": {"detail": "..."}}}`.
"""

from dataclasses import replace
from http import HTTPStatus
from typing import Any

from memrelay.web.models.routes import CompatibleApi
from memrelay.web.server.error_dialects import ErrorDialect, Json, describe_faults
from memrelay.web.server.errors import KeyReused

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {"type": "string"},
        "detail": {"type": "string", "description": "The problem and the fix."},
    },
}
LATER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "meta": {
                    "type": "object",
                    "properties": {
                        "detail": {"type": "string", "description": "The problem and the fix."}
                    },
                },
            },
        }
    },
}
CODES = {
    400: "VALIDATION_FAILED",
    404: "RESOURCE_NOT_FOUND",
    422: "IDEMPOTENCY_KEY_REUSED",
    500: "INTERNAL_ERROR",
}
# Problem members that SOAT's shapes express in another way.
STANDARD_MEMBERS = ("type", "title", "status", "detail", "faults")
# SOAT's fixed error texts.
FIXED_TEXTS = {401: "Unauthorized", 403: "Forbidden"}


def to_error(problem: Json) -> tuple[int, Json]:
    """Return (status, body) of a problem on the original paths."""
    status, text, detail = _describe(problem)
    return status, {"error": text, "detail": detail}


def to_later_error(problem: Json) -> tuple[int, Json]:
    """Return (status, body) of a problem on the paths of later SOAT versions."""
    status, text, detail = _describe(problem)
    meta = {"detail": detail} | {
        name: value for name, value in problem.items() if name not in STANDARD_MEMBERS
    }
    code = CODES.get(status, HTTPStatus(status).name)
    return status, {"error": {"code": code, "message": text, "meta": meta}}


def _describe(problem: Json) -> tuple[int, str, str]:
    """Return (status, text, detail) of a problem.

    SOAT reports invalid content as 400 instead of 422. A reused idempotency key remains 422,
    because SOAT has no such keys.
    """
    status, detail = problem["status"], describe_faults(problem)
    default_text = detail.partition(":")[0] if status == 404 else detail
    is_invalid = status == 422 and problem["title"] != KeyReused.title
    return 400 if is_invalid else status, FIXED_TEXTS.get(status) or default_text, detail


SOAT = ErrorDialect(
    "soat", "Error", SCHEMA, to_error, prefixes=("/api/v1/memories", "/api/v1/knowledge")
)
LATER_SOAT = ErrorDialect(
    "soat", "LaterError", LATER_SCHEMA, to_later_error, prefixes=("/api/v1/memory-entries",)
)
READ_ERRORS = {503: "No worker serves the project.", 504: "No answer in time."}
WRITE_ERRORS = READ_ERRORS | {422: "The Idempotency-Key belongs to another call."}
# Ids name their pipeline, so that each path has one form.
SOAT_API = CompatibleApi(SOAT, READ_ERRORS, WRITE_ERRORS, prefixes=("",), ends=("",))
LATER_SOAT_API = replace(SOAT_API, dialect=LATER_SOAT)
