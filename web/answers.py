"""Answers in JSON, and what queries share."""

from collections.abc import Collection
from typing import Any

import orjson
from aiohttp import web

from web.errors import BadRequest

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
