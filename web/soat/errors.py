"""Errors in SOAT's shape, `{"error": "..."}`, for its own paths; `detail` beside it has the rule and the remedy."""
from typing import Any

import orjson
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from web.answers import json_response
from web.errors import KeyReused

PATHS = ("/api/v1/memories", "/api/v1/knowledge")
SCHEMA: dict[str, Any] = {"type": "object", "required": ["error"], "properties": {
    "error": {"type": "string"}, "detail": {"type": "string", "description": "The rule and the remedy."}}}
SHORT = {401: "Unauthorized", 403: "Forbidden"}   # what SOAT says, whatever the reason is
NOT_COPIED = (hdrs.CONTENT_TYPE, hdrs.CONTENT_LENGTH)


def is_soat(path: str) -> bool:
    """Whether a path is one of SOAT's."""
    return any(path == one or path.startswith(f"{one}/") for one in PATHS)


@web.middleware
async def speak_soat(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns problem JSON into SOAT's shape, on its paths. What cannot be carried out as it was sent is 400 there.

    A key that stands for another call is 422 as everywhere: SOAT knows no keys.
    """
    response = await handler(request)
    is_problem = isinstance(response, web.Response) and response.content_type == "application/problem+json"
    if not is_soat(request.path) or not is_problem:
        return response
    assert isinstance(response, web.Response) and isinstance(response.body, bytes)
    told = orjson.loads(response.body)
    detail = "; ".join(_line(fault) for fault in told.get("faults", ())) or told["detail"]
    text = SHORT.get(response.status) or (detail.partition(":")[0] if response.status == 404 else detail)
    is_wrong = response.status == 422 and told["title"] != KeyReused.title
    answer = json_response({"error": text, "detail": detail}, 400 if is_wrong else response.status)
    for name, value in response.headers.items():
        if name not in NOT_COPIED:
            answer.headers[name] = value
    return answer


def _line(fault: dict[str, str]) -> str:
    """`name is missing`; a field of a field with a dot."""
    told = f"{fault['rule']}; {fault['suggestion']}" if fault["suggestion"] else fault["rule"]
    return f"{fault['pointer'].strip('/').replace('/', '.')} {told}".strip()
