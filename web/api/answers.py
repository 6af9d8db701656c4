"""Answers in JSON, and what queries share."""

import re
from collections.abc import Collection
from typing import Any

import orjson
from aiohttp import hdrs, web
from multidict import istr

from memrelay.memory.control.precondition import ANYTHING, NOTHING, SOMETHING, Precondition
from memrelay.memory.errors import NotAsExpected
from memrelay.web.server.errors import BadRequest, PreconditionFailed

MOST_ITEMS = 1000


def json_response(value: Any, status: int = 200, **headers: str) -> web.Response:
    """An answer in JSON."""
    return web.Response(
        body=orjson.dumps(value),
        status=status,
        content_type="application/json",
        headers=headers or None,
    )


def limit_of(request: web.Request, default: int) -> int:
    """How many items are wanted. Raises BadRequest."""
    given = request.query.get("limit", str(default))
    limit = int(given) if given.isascii() and given.isdecimal() and len(given) < 5 else 0
    if not 1 <= limit <= MOST_ITEMS:
        raise BadRequest(f"`limit` is a number from 1 to {MOST_ITEMS}, not {given[:20]!r}")
    return limit


def not_our_cursor() -> BadRequest:
    """A cursor that no page has given out."""
    return BadRequest("`cursor` is none of ours; leave it out to begin at the first page")


def number_of(cursor: str, largest: int) -> int:
    """The place that a cursor is, a number. Raises BadRequest."""
    place = (
        int(cursor)
        if cursor.isascii() and cursor.isdecimal() and len(cursor) <= len(str(largest))
        else largest + 1
    )
    if place > largest:
        raise not_our_cursor()
    return place


def refuse_unknown(
    request: web.Request, known: Collection[str], lists: Collection[str] = ()
) -> None:
    """A misspelt parameter is told, not ignored; and one that is given again, but for `lists`.
    Raises BadRequest."""
    for name in request.query:
        if name not in known:
            raise BadRequest(
                f"there is no parameter {name[:50]!r} here; there are {', '.join(known)}"
            )
        if name not in lists and (times := len(request.query.getall(name))) > 1:
            raise BadRequest(f"the parameter {name!r} is given {times} times, and taken once")


# If-Match and If-None-Match (RFC 9110, 13.1): what a change is made on top of, and what need not
# be told.

SAFE = (hdrs.METH_GET, hdrs.METH_HEAD)
ETAG = re.compile(r'(W/)?"([^"]*)"')
LIST = re.compile(rf"{ETAG.pattern}(\s*,\s*{ETAG.pattern})*")
NEVER = Precondition(frozenset(), absent=False)


def precondition_of(request: web.Request) -> Precondition:
    """What must be in service for the request to have an effect. Raises BadRequest: a mistyped
    condition is not ignored."""
    over, unless = _header(request, hdrs.IF_MATCH), _header(request, hdrs.IF_NONE_MATCH)
    if unless not in (None, "*"):
        raise BadRequest(
            "If-None-Match takes * alone here: only where the pipeline is not in service"
        )
    if unless is not None:
        return NOTHING if over is None else NEVER
    if over is None:
        return ANYTHING
    if over == "*":
        return SOMETHING
    return Precondition(frozenset(_tags(over)), absent=False)


def etags_of(request: web.Request, name: istr) -> tuple[str, ...]:
    """The ETags that a header names; () where it is not there, or is *. Raises BadRequest."""
    given = _header(request, name)
    if given in (None, "*"):
        return ()
    return tuple(_tags(given or "")) or ("",)  # which nothing has


def is_known(request: web.Request, tag: str) -> bool:
    """Whether who asks has what this ETag names already, so that 304 is the answer (13.1.2: weak
    tags count, * is anything)."""
    return request.method in SAFE and not {
        known.value for known in request.if_none_match or ()
    }.isdisjoint((tag, "*"))


def _tags(given: str) -> list[str]:
    """Raises BadRequest. A weak tag matches nothing here."""
    if not LIST.fullmatch(given):
        raise BadRequest(
            f'If-Match takes the ETag of what is to be replaced, in quotes ("HASH"), or *, not {given[:80]!r}'
        )
    return [value for weak, value in ETAG.findall(given) if not weak]


def _header(request: web.Request, name: istr) -> str | None:
    given = request.headers.getall(name, None)
    return None if given is None else ", ".join(given).strip()


def changed_meanwhile(error: NotAsExpected) -> PreconditionFailed:
    """What a caller whose condition does not hold is told."""
    return PreconditionFailed(str(error), active=error.active or None)
