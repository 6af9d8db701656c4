"""Errors in SOAT's shapes, for its own paths; `detail` has the rule and the remedy.

The document's paths tell `{"error": "...", "detail": "..."}`; those of SOAT's later versions
`{"error": {"code": "...", "message": "...", "meta": {"detail": "..."}}}`.
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
        "detail": {"type": "string", "description": "The rule and the remedy."},
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
                        "detail": {"type": "string", "description": "The rule and the remedy."}
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
STANDARD = (
    "type",
    "title",
    "status",
    "detail",
    "faults",
)  # members of a problem that are told otherwise
SHORT = {401: "Unauthorized", 403: "Forbidden"}  # what SOAT says, whatever the reason is
NOT_COPIED = (hdrs.CONTENT_TYPE, hdrs.CONTENT_LENGTH)


def is_soat(path: str) -> bool:
    """Whether a path is one of SOAT's."""
    return any(path == one or path.startswith(f"{one}/") for one in (*PATHS, *LATER_PATHS))


def is_later(path: str) -> bool:
    """Whether a path is one that SOAT's later versions have."""
    return path.startswith(LATER_PATHS)


@web.middleware
async def speak_soat(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns problem JSON into SOAT's shape, on its paths. What cannot be carried out as it was sent
    is 400 there.

    A key that stands for another call is 422 as everywhere: SOAT knows no keys.
    """
    response = await handler(request)
    is_problem = (
        isinstance(response, web.Response) and response.content_type == "application/problem+json"
    )
    if not is_soat(request.path) or not is_problem:
        return response
    assert isinstance(response, web.Response) and isinstance(response.body, bytes)
    told = orjson.loads(response.body)
    detail = "; ".join(_line(fault) for fault in told.get("faults", ())) or told["detail"]
    text = SHORT.get(response.status) or (
        detail.partition(":")[0] if response.status == 404 else detail
    )
    status = 400 if response.status == 422 and told["title"] != KeyReused.title else response.status
    answer = json_response(
        _later(status, text, detail, told)
        if is_later(request.path)
        else {"error": text, "detail": detail},
        status,
    )
    for name, value in response.headers.items():
        if name not in NOT_COPIED:
            answer.headers[name] = value
    return answer


def _later(status: int, text: str, detail: str, told: dict[str, Any]) -> dict[str, Any]:
    meta = {"detail": detail} | {
        name: value for name, value in told.items() if name not in STANDARD
    }
    return {
        "error": {"code": CODES.get(status, HTTPStatus(status).name), "message": text, "meta": meta}
    }


def _line(fault: dict[str, str]) -> str:
    """`name is missing`; a field of a field with a dot."""
    told = f"{fault['rule']}; {fault['suggestion']}" if fault["suggestion"] else fault["rule"]
    return f"{fault['pointer'].strip('/').replace('/', '.')} {told}".strip()
