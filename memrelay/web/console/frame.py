"""The common parts of all pages: templates, static files, response headers, and error pages."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import wraps
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from memrelay.bus.errors import BusError
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import CALLER
from memrelay.web.console import format as formats
from memrelay.web.console.notices import describe_durability, list_notices
from memrelay.web.console.page import Page, make_menu
from memrelay.web.console.shared_reads import STATUS
from memrelay.web.server.errors import NotAllowed, NotFound, Problem, Unauthorized, Unavailable

STATIC_FOLDER = Path(__file__).resolve().parent / "static"
CONTENT_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
CACHE_FOREVER = "public, max-age=31536000, immutable"
# Pages to which the login may redirect.
PAGE_PATHS = re.compile(
    r"/((pipelines|memories|dead-letters|keys|status|find|docs)(/[A-Za-z0-9._~%:-]{1,200}){0,4})?"
    r"(\?[!-~]{0,1000})?"
)
VERSION = version("memrelay")
STATUS_TIMEOUT_S = 1.0
# Pages show private data.
HEADERS = {hdrs.CACHE_CONTROL: "no-store"}
PageHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Asset(NamedTuple):
    """A static file. `digest` is the beginning of its SHA-256, in hex."""

    body: bytes
    content_type: str
    digest: str


def _read_asset(file: Path) -> Asset:
    body = file.read_bytes()
    return Asset(body, CONTENT_TYPES[file.suffix], sha256(body).hexdigest()[:16])


ASSETS = {
    file.name: _read_asset(file)
    for file in sorted(STATIC_FOLDER.iterdir())
    if file.suffix in CONTENT_TYPES
}


def asset_url(name: str) -> str:
    """Return the URL of a static file. It changes with the content."""
    return f"/static/{name}?v={ASSETS[name].digest}"


def asset_response(request: web.Request, name: str) -> web.Response:
    """Return a static file, or 304 if the browser has it. Raises NotFound."""
    asset = ASSETS.get(name)
    if asset is None:
        raise NotFound(f"no static file {name[:100]!r}")
    is_versioned = request.query.get("v") == asset.digest
    headers = {
        hdrs.ETAG: f'"{asset.digest}"',
        hdrs.CACHE_CONTROL: CACHE_FOREVER if is_versioned else "no-cache",
    }
    if any(tag.value == asset.digest for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(
        body=asset.body, content_type=asset.content_type, charset="utf-8", headers=headers
    )


_templates = Environment(
    loader=FileSystemLoader(Path(__file__).resolve().parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.globals |= {"asset": asset_url, "version": VERSION}
_templates.filters |= {
    "count": formats.format_count,
    "rate": formats.format_rate,
    "age": formats.format_age,
    "bytes": formats.format_bytes,
    "time": formats.format_time,
    "pause": formats.format_pause,
    "clip": formats.clip,
    "code": formats.format_code,
    "capitalize_first": formats.capitalize_first,
}


def render(template: str, /, status: int = 200, **values: Any) -> web.Response:
    """Render a part of a page."""
    text = _templates.get_template(template).render(values)
    return web.Response(text=text, status=status, content_type="text/html", headers=HEADERS)


def load_macro(template: str, name: str) -> Callable[..., Markup]:
    """Return a macro of a template."""
    macro: Callable[..., Markup] = getattr(_templates.get_template(template).module, name)
    return macro


async def render_page(
    request: web.Request,
    page: Page,
    template: str,
    served: Served | None = None,
    /,
    **values: Any,
) -> web.Response:
    """Render a page with its navigation. `served` is the pipeline to which it belongs."""
    status = await _read_status(request)
    frame = _frame_values(request, page, served, status)
    return render(template, **(frame | values))


def _frame_values(
    request: web.Request,
    page: Page | None,
    served: Served | None = None,
    status: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the template values of the frame of a page."""
    uid = served.deployed.uid if served else ""
    return {
        "page": page,
        "title": page.title if page else "",
        "caller": request.get(CALLER),
        "main_menu": make_menu(request, page, "main"),
        "pipeline_menu": make_menu(request, page, "pipeline", uid) if uid else [],
        "durability": describe_durability(status) if status else None,
        "uid": uid,
        "name": served.deployed.name if served else "",
        "notices": list_notices(status, served) if served else [],
        "seen": served.deployed.hash if served else "",
    }


async def _read_status(request: web.Request) -> dict[str, Any] | None:
    """Return the shared status, None if the caller is unknown or the bus does not answer soon."""
    if CALLER not in request:
        return None
    try:
        return await asyncio.wait_for(request.config_dict[STATUS].get(), STATUS_TIMEOUT_S)
    except (BusError, StoreBusy, StoreBroken, TimeoutError):
        return None


def as_page(handler: PageHandler) -> PageHandler:
    """Show the errors of a handler as pages. Callers without a session go to the login page."""

    @wraps(handler)
    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except Unauthorized:
            return redirect_to_login(request)
        except Problem as problem:
            return _render_error(request, problem)
        except BusError as error:
            return _render_error(request, Unavailable(f"The bus does not respond: {error}."))
        except (StoreBusy, StoreBroken) as error:
            return _render_error(request, Unavailable(f"The catalog cannot be read: {error}."))

    return handle


@web.middleware
async def show_missing_page(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer a browser's request for an unknown path with a page instead of problem JSON."""
    error = request.match_info.http_exception
    accepts_html = "text/html" in request.headers.get(hdrs.ACCEPT, "")
    if error is None or error.status != NotFound.status or not accepts_html:
        return await handler(request)
    problem = NotFound("There is no page at this address.")
    return _render_error(request, problem, title="Page not found")


def redirect_to_login(request: web.Request) -> web.Response:
    """Redirect to the login page, which returns to the current page."""
    target = request.rel_url.raw_path_qs
    is_page = PAGE_PATHS.fullmatch(target) and target != "/"
    query = f"?next={quote(target, safe='/')}" if is_page else ""
    return web.Response(status=303, headers=HEADERS | {hdrs.LOCATION: f"/login{query}"})


def _render_error(request: web.Request, problem: Problem, title: str = "") -> web.Response:
    if isinstance(problem, NotAllowed):
        title = "Permission denied"
    frame = _frame_values(request, None) | {"title": title or problem.title}
    response = render("error.html", problem.status, problem=problem, **frame)
    headers = problem.as_response().headers
    if hdrs.RETRY_AFTER in headers:
        response.headers[hdrs.RETRY_AFTER] = headers[hdrs.RETRY_AFTER]
    return response
