"""The frame that every page has: its templates, its headers, and how it tells that something
failed."""

import re
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bus.errors import BusError
from memory.errors import StoreBroken, StoreBusy
from web.console import figures
from web.console.assets import asset_url
from web.errors import NotFound, Problem, Unauthorised, Unavailable

Page = Callable[[web.Request], Awaitable[web.StreamResponse]]
PAGES = re.compile(
    r"/(pipelines/[A-Za-z0-9_-]{1,64})?(\?[!-~]{0,1000})?"
)  # where one may be led after logging in
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    # not no-referrer, with which a browser may send `Origin: null` to ourselves
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    hdrs.CACHE_CONTROL: "no-store",  # what a page shows are memories
}

_templates = Environment(
    loader=FileSystemLoader(Path(__file__).resolve().parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.globals["asset"] = asset_url
_templates.filters |= {
    "count": figures.count,
    "rate": figures.rate,
    "age": figures.age,
    "moment": figures.moment,
    "clip": figures.clip,
    "code": figures.code,
}


def show(template: str, /, status: int = 200, **values: Any) -> web.Response:
    """A page, or a part of one."""
    text = _templates.get_template(template).render(values)
    return web.Response(text=text, status=status, content_type="text/html", headers=HEADERS)


def as_page(handler: Page) -> Page:
    """What goes wrong is told inside the frame, under its own status; who has to log in is led
    there, and back."""

    @wraps(handler)
    async def shown(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except Unauthorised:
            return to_login(request)
        except Problem as fault:
            return _show_fault(fault)
        except BusError as fault:
            return _show_fault(Unavailable(f"The bus does not answer: {fault}."))
        except (StoreBusy, StoreBroken) as fault:
            return _show_fault(Unavailable(f"The catalogue of pipelines cannot be read: {fault}."))

    return shown


@web.middleware
async def show_lost(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A path that is none is told to a browser as a page, from which one finds the way back, and to
    programs as a problem."""
    lost = request.match_info.http_exception
    if (
        lost is None
        or lost.status != NotFound.status
        or "text/html" not in request.headers.get(hdrs.ACCEPT, "")
    ):
        return await handler(request)
    return _show_fault(NotFound("No page has this address."))


def to_login(request: web.Request) -> web.Response:
    """To where a key can be shown."""
    goal = request.rel_url.raw_path_qs
    back = f"?next={quote(goal, safe='/')}" if PAGES.fullmatch(goal) and goal != "/" else ""
    return web.Response(status=303, headers=HEADERS | {hdrs.LOCATION: f"/login{back}"})


def _show_fault(fault: Problem) -> web.Response:
    response = show("fault.html", fault.status, fault=fault)
    if hdrs.RETRY_AFTER in (told := fault.as_response().headers):
        response.headers[hdrs.RETRY_AFTER] = told[hdrs.RETRY_AFTER]
    return response
