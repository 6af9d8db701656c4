"""Errors in SOAT's JSON shapes, on SOAT's paths. `detail` states the problem and the fix.

The original paths return `{"error": "...", "detail": "..."}`. The paths of later SOAT versions
return `{"error": {"code": "...", "message": "...", "meta": {"detail": "..."}}}`.
"""

from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from memrelay.web.api.answers import json_response
from memrelay.web.server.errors import KeyReused

PATHS = ("/api/v1/memories", "/api/v1/knowledge")
LATER_PATHS = ("/api/v1/memory-entries",)
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
NOT_COPIED_HEADERS = (hdrs.CONTENT_TYPE, hdrs.CONTENT_LENGTH)


def is_soat_path(path: str) -> bool:
    """Return whether a path is one of SOAT's."""
    return any(path == one or path.startswith(f"{one}/") for one in (*PATHS, *LATER_PATHS))


def is_later_path(path: str) -> bool:
    """Return whether a path exists only in later versions of SOAT."""
    return path.startswith(LATER_PATHS)


@web.middleware
async def convert_errors_to_soat(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Convert problem JSON to SOAT's shape on SOAT's paths.

    SOAT reports invalid content as 400 instead of 422. A reused idempotency key remains 422,
    because SOAT has no such keys.
    """
    response = await handler(request)
    if not is_soat_path(request.path) or not isinstance(response, web.Response):
        return response
    if response.content_type != "application/problem+json":
        return response
    assert isinstance(response.body, bytes)
    problem = orjson.loads(response.body)
    faults = problem.get("faults", ())
    detail = "; ".join(_format_fault(fault) for fault in faults) or problem["detail"]
    default_text = detail.partition(":")[0] if response.status == 404 else detail
    text = FIXED_TEXTS.get(response.status) or default_text
    is_invalid = response.status == 422 and problem["title"] != KeyReused.title
    status = 400 if is_invalid else response.status
    if is_later_path(request.path):
        body = _later_body(status, text, detail, problem)
    else:
        body = {"error": text, "detail": detail}
    answer = json_response(body, status)
    for name, value in response.headers.items():
        if name not in NOT_COPIED_HEADERS:
            answer.headers[name] = value
    return answer


def _later_body(status: int, text: str, detail: str, problem: dict[str, Any]) -> dict[str, Any]:
    meta = {"detail": detail} | {
        name: value for name, value in problem.items() if name not in STANDARD_MEMBERS
    }
    code = CODES.get(status, HTTPStatus(status).name)
    return {"error": {"code": code, "message": text, "meta": meta}}


def _format_fault(fault: dict[str, str]) -> str:
    """Return for example `name is missing`. Nested fields are separated by dots."""
    field = fault["pointer"].strip("/").replace("/", ".")
    rule = f"{fault['rule']}; {fault['suggestion']}" if fault["suggestion"] else fault["rule"]
    return f"{field} {rule}".strip()
