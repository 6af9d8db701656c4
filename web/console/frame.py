"""The frame that every page has: its templates, its headers, and how it tells that something
failed."""

import re
from collections.abc import Awaitable, Callable
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from memrelay.bus.errors import BusError
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.web.console import figures
from memrelay.web.server.errors import NotFound, Problem, Unauthorized, Unavailable

# The files that pages are made with: read once, and kept by browsers until they change.

FOLDER = Path(__file__).resolve().parent / "static"
TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
FOR_EVER = "public, max-age=31536000, immutable"


class Asset(NamedTuple):
    """One file."""

    body: bytes
    content_type: str
    digest: str  # the beginning of its sha256, in hex


def _read(file: Path) -> Asset:
    body = file.read_bytes()
    return Asset(body, TYPES[file.suffix], sha256(body).hexdigest()[:16])


ASSETS = {file.name: _read(file) for file in sorted(FOLDER.iterdir()) if file.suffix in TYPES}


def asset_url(name: str) -> str:
    """Where a page finds a file: another address for other contents."""
    return f"/static/{name}?v={ASSETS[name].digest}"


def asset_response(request: web.Request, name: str) -> web.Response:
    """A file; 304 where the browser has it. Raises NotFound."""
    asset = ASSETS.get(name)
    if asset is None:
        raise NotFound(f"there is no file {name[:100]!r} among the page's files")
    named_by_digest = request.query.get("v") == asset.digest
    headers = {
        hdrs.ETAG: f'"{asset.digest}"',
        hdrs.CACHE_CONTROL: FOR_EVER if named_by_digest else "no-cache",
        "X-Content-Type-Options": "nosniff",
    }
    if any(tag.value == asset.digest for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(
        body=asset.body, content_type=asset.content_type, charset="utf-8", headers=headers
    )


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
        except Unauthorized:
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
