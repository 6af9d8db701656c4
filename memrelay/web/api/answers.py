"""JSON responses, query parameters, and conditional requests."""

import re
from collections.abc import Collection
from typing import Any

import orjson
from aiohttp import hdrs, web
from multidict import istr

from memrelay.memory.control.precondition import ANYTHING, NOTHING, SOMETHING, Precondition
from memrelay.memory.errors import PreconditionNotMet as ConditionFailed
from memrelay.memory.validation import parse_number
from memrelay.web.server.errors import BadRequest, PreconditionFailed

MAX_ITEMS = 1000
CACHEABLE_METHODS = (hdrs.METH_GET, hdrs.METH_HEAD)
# If-Match and If-None-Match (RFC 9110, 13.1).
ETAG = re.compile(r'(W/)?"([^"]*)"')
ETAG_LIST = re.compile(rf"{ETAG.pattern}(\s*,\s*{ETAG.pattern})*")
NEVER = Precondition(frozenset(), absent=False)


def json_response(value: Any, status: int = 200, **headers: str) -> web.Response:
    """Build a JSON response."""
    return web.Response(
        body=orjson.dumps(value),
        status=status,
        content_type="application/json",
        headers=headers or None,
    )


def page_response(items: list[Any], next_cursor: str | None, total: int) -> web.Response:
    """Build the response with a page of a list."""
    return json_response({"items": items, "next_cursor": next_cursor, "total": total})


def parse_limit(request: web.Request, default: int) -> int:
    """Return the parameter `limit`. Raises BadRequest."""
    text = request.query.get("limit", str(default))
    limit = parse_number(text, 0, len(str(MAX_ITEMS)))
    if not 1 <= limit <= MAX_ITEMS:
        raise BadRequest(f"`limit` must be a number from 1 to {MAX_ITEMS}, not {text[:20]!r}")
    return limit


def invalid_cursor() -> BadRequest:
    """Return the error for a cursor that no page returned."""
    return BadRequest("`cursor` is invalid; omit it to get the first page")


def parse_numeric_cursor(cursor: str, largest: int) -> int:
    """Return the position in a cursor. Raises BadRequest."""
    position = parse_number(cursor, largest + 1, len(str(largest)))
    if position > largest:
        raise invalid_cursor()
    return position


def refuse_unknown(
    request: web.Request, known: Collection[str], lists: Collection[str] = ()
) -> None:
    """Reject unknown parameters, and repeated parameters except `lists`. Raises BadRequest."""
    for name in request.query:
        if name not in known:
            raise BadRequest(f"unknown parameter {name[:50]!r}; known are {', '.join(known)}")
        if name not in lists and (times := len(request.query.getall(name))) > 1:
            raise BadRequest(f"the parameter {name!r} is given {times} times; give it once")


def parse_precondition(request: web.Request) -> Precondition:
    """Return which version must be active for the request to take effect. Raises BadRequest."""
    if_match = _get_header(request, hdrs.IF_MATCH)
    if_none_match = _get_header(request, hdrs.IF_NONE_MATCH)
    if if_none_match not in (None, "*"):
        raise BadRequest(
            "If-None-Match supports only * here: proceed only if the pipeline is not active"
        )
    if if_none_match is not None:
        return NOTHING if if_match is None else NEVER
    if if_match is None:
        return ANYTHING
    if if_match == "*":
        return SOMETHING
    return Precondition(frozenset(_parse_etags(if_match)), absent=False)


def parse_if_match(request: web.Request, name: istr) -> tuple[str, ...]:
    """Return the ETags in a header, or () if it is absent or *. Raises BadRequest."""
    given = _get_header(request, name)
    if given in (None, "*"):
        return ()
    # "" matches no version.
    return tuple(_parse_etags(given or "")) or ("",)


def requires_absence(request: web.Request) -> bool:
    """Return whether a write must fail if the entry exists: If-None-Match: *. Raises BadRequest."""
    given = _get_header(request, hdrs.IF_NONE_MATCH)
    if given not in (None, "*"):
        raise BadRequest("If-None-Match supports only * here: write only if no entry has the key")
    return given is not None


def check_absence(request: web.Request, *, won: bool) -> None:
    """Raise PreconditionFailed if a write with If-None-Match: * found an entry."""
    if not won and requires_absence(request):
        raise PreconditionFailed(
            "an entry has the key already, and If-None-Match: * allows only a new one; read it, or "
            "write without this header"
        )


def is_unchanged(request: web.Request, etag: str) -> bool:
    """Return whether the client already has this version, so that the response is 304.

    Weak tags match, and * matches everything (RFC 9110, 13.1.2).
    """
    known = {tag.value for tag in request.if_none_match or ()}
    return request.method in CACHEABLE_METHODS and not known.isdisjoint((etag, "*"))


def _parse_etags(given: str) -> list[str]:
    """Return the strong ETags. Raises BadRequest."""
    if not ETAG_LIST.fullmatch(given):
        raise BadRequest(
            f'If-Match must be the ETag of the version to replace, in quotes ("HASH"), or *, '
            f"not {given[:80]!r}"
        )
    return [value for weak, value in ETAG.findall(given) if not weak]


def _get_header(request: web.Request, name: istr) -> str | None:
    given = request.headers.getall(name, None)
    return None if given is None else ", ".join(given).strip()


def precondition_failed(error: ConditionFailed) -> PreconditionFailed:
    """Return the response to a failed condition."""
    return PreconditionFailed(str(error), active=error.active or None)
