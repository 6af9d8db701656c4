"""The common parts of all pages: their declarations, templates, static files, headers and errors.

Each file in `pages/` declares its pages and their routes. Scripts fetch parts of an open page once
a second (static/refresh.js). A part whose pipeline has not changed is answered with 304, without a
call of an operation.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from memrelay.bus.errors import BusError
from memrelay.installation import PROGRAM, list_key_commands, sample
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.web.api.answers import is_unchanged
from memrelay.web.api.directory import Served
from memrelay.web.auth.access import CALLER, RouteHandler, get_caller, open_to_all, requires
from memrelay.web.auth.authorizer import Caller
from memrelay.web.console import format as formats
from memrelay.web.console.icons import find_icon, find_state
from memrelay.web.console.shared_reads import STATES, STATUS, describe_durability, list_notices
from memrelay.web.console.terms import TERMS
from memrelay.web.openapi.route_docs import ANY, HTML, documented
from memrelay.web.server.errors import NotAllowed, NotFound, Problem, Unauthorized, Unavailable
from memrelay.web.server.options import OPTIONS
from memrelay.web.server.path_hints import find_path_hint
from memrelay.web.services import get_services

Menu = Literal["main", "pipeline"]
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
    r"/((pipelines|memories|dead-letters|keys|status|find|docs|oauth)(/[A-Za-z0-9._~%:-]{1,200}){0,4})?"
    r"(\?[!-~]{0,2000})?"
)
VERSION = version("memrelay")
STATUS_TIMEOUT_S = 1.0
# Pages show private data.
HEADERS = {hdrs.CACHE_CONTROL: "no-store"}
FOR_READERS = requires("read")
# Returns the template values of a page or a part of it.
ListValues = Callable[[web.Request, Served], Awaitable[dict[str, Any]]]
routes = web.RouteTableDef()


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the console.

    `menu` is the navigation that lists the page: the main menu, or the tabs of a pipeline. `parent`
    is the title of the page above it. `link` is the address of its menu entry if that is not
    `path`. Callers see the entry if they have one of `scopes`, or if there are none; `sees_all`
    asks for access to all pipelines too.
    """

    title: str
    path: str
    menu: Menu | None = None
    order: int = 0
    parent: str = ""
    link: str = ""
    scopes: tuple[str, ...] = ("read",)
    sees_all: bool = False

    def is_for(self, caller: Caller | None) -> bool:
        """Return whether a caller may open the page. None: a client without a valid key."""
        if not self.scopes:
            return True
        if caller is None or caller.scopes.isdisjoint(self.scopes):
            return False
        return caller.sees_all or not self.sees_all


class Link(NamedTuple):
    """An entry of a navigation. `current` is the value of aria-current, "" for none."""

    title: str
    url: str
    current: str


TEMPLATES = web.AppKey("templates", Environment)
# The pages, by title.
PAGES = web.AppKey("pages", dict[str, Page])


def index_pages(pages: Sequence[Page]) -> dict[str, Page]:
    """Return the pages by title, in the order of their menu entries."""
    return {page.title: page for page in sorted(pages, key=lambda page: page.order)}


def make_menu(request: web.Request, page: Page | None, menu: Menu, uid: str = "") -> list[Link]:
    """Return the entries of a navigation that the caller of a request may open."""
    pages, caller = request.config_dict[PAGES], request.get(CALLER)
    above = _titles_above(pages, page)
    return [
        Link(one.title, (one.link or one.path).replace("{uid}", uid), _mark(one, page, above))
        for one in pages.values()
        if one.menu == menu and one.is_for(caller)
    ]


def _titles_above(pages: dict[str, Page], page: Page | None) -> list[str]:
    titles = []
    while page is not None and page.parent:
        titles.append(page.parent)
        page = pages.get(page.parent)
    return titles


def _mark(entry: Page, page: Page | None, above: list[str]) -> str:
    if page is not None and entry.path == page.path:
        return "page"
    return "true" if entry.title in above else ""


class Asset(NamedTuple):
    """A static file. `digest` is the beginning of its SHA-256, in hex."""

    body: bytes
    content_type: str
    digest: str


def _read_asset(file: Path) -> Asset:
    body = file.read_bytes()
    return Asset(body, CONTENT_TYPES[file.suffix], sha256(body).hexdigest()[:16])


# By their paths below the folder, such as `console.css` and `editor/editor.js`.
ASSETS = {
    file.relative_to(STATIC_FOLDER).as_posix(): _read_asset(file)
    for file in sorted(STATIC_FOLDER.rglob("*"))
    if file.suffix in CONTENT_TYPES
}


def asset_url(name: str) -> str:
    """Return the path of a static file. It changes with the content."""
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


def make_templates(root: str) -> Environment:
    """Return the templates of a console below the path `root`, which all their links begin with.

    Macros are imported without context, so `root` is a global.
    """
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).resolve().parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {
        "root": root,
        "asset": lambda name: root + asset_url(name),
        "version": VERSION,
        "program": PROGRAM,
        "sample": sample,
        "icon_name": find_icon,
        "state_name": find_state,
        "read_json": formats.read_json,
        "terms": TERMS,
        "key_commands": list_key_commands(),
    }
    templates.filters |= {
        "count": formats.format_count,
        "rate": formats.format_rate,
        "age": formats.format_age,
        "bytes": formats.format_bytes,
        "time": formats.format_time,
        "pause": formats.format_pause,
        "clip": formats.clip,
        "summary": formats.summarize,
        "code": formats.format_code,
        "capitalize_first": formats.capitalize_first,
    }
    return templates


def render(
    request: web.Request, template: str, /, status: int = 200, **values: Any
) -> web.Response:
    """Render a part of a page."""
    text = request.app[TEMPLATES].get_template(template).render(values)
    return web.Response(text=text, status=status, content_type="text/html", headers=HEADERS)


def load_macro(request: web.Request, template: str, name: str) -> Callable[..., Markup]:
    """Return a macro of a template."""
    loaded = request.app[TEMPLATES].get_template(template)
    macro: Callable[..., Markup] = getattr(loaded.module, name)
    return macro


def redirect(request: web.Request, path: str) -> web.Response:
    """Redirect to a page of the console."""
    location = request.app[OPTIONS].base_path + path
    return web.Response(status=303, headers=HEADERS | {hdrs.LOCATION: location})


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
    return render(request, template, **(frame | values))


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


def as_page(handler: RouteHandler) -> RouteHandler:
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


class PageRoutes(web.RouteTableDef):
    """The routes of a page of the console: the page, and the fragments that its script fetches.

    `errors` and `query` document all of them. `access` is a result of `requires`.
    """

    def __init__(
        self,
        page: Page,
        *,
        errors: Mapping[int, str] | None = None,
        query: Mapping[str, str] | None = None,
        access: Callable[[RouteHandler], RouteHandler] = FOR_READERS,
    ) -> None:
        super().__init__()
        self.declared, self._access = page, access
        self._errors, self._query = errors or {}, query or {}

    def page(self, path: str = "", **options: Any) -> Callable[[RouteHandler], RouteHandler]:
        """Register the handler of the page, or of a further one at `path`.

        `options` are `access`, further `responses`, and fields of `RouteDocs`.
        """
        responses = {200: "The page.", 303: "Login required."}
        return self._register(path or self.declared.path, responses, as_page, options)

    def fragment(self, path: str, **options: Any) -> Callable[[RouteHandler], RouteHandler]:
        """Register the handler of a fragment. `options` are as in `page`."""
        responses = {200: "The fragment.", 304: "Nothing has changed."}
        return self._register(path, responses, lambda handler: handler, options)

    def pipeline_page(self, template: str, **options: Any) -> Callable[[ListValues], RouteHandler]:
        """Register the page of a pipeline, whose template values a function returns.

        `options` are as in `page`.
        """

        def declare(list_values: ListValues) -> RouteHandler:
            @wraps(list_values)
            async def show(request: web.Request) -> web.StreamResponse:
                served = await find_served(request)
                values = await list_values(request, served)
                return await render_page(request, self.declared, template, served, **values)

            return self.page(**options)(show)

        return declare

    def part(
        self, path: str, template: str, *, every_s: int = 0, **options: Any
    ) -> Callable[[ListValues], RouteHandler]:
        """Register a part of the page of a pipeline, which changes with the pipeline.

        A function returns its template values. `path` follows that of the page, and `options` are
        as in `page`. `every_s` is for a part that also changes without a commit that the bus
        knows, such as the tries of a delivery: it is made again after so many seconds.
        """

        def declare(list_values: ListValues) -> RouteHandler:
            @wraps(list_values)
            async def refresh(request: web.Request) -> web.StreamResponse:
                served = await find_served(request)

                async def make() -> web.Response:
                    values = await list_values(request, served)
                    common: dict[str, Any] = {
                        "uid": served.deployed.uid,
                        "caller": get_caller(request),
                    }
                    return render(request, template, **(common | values))

                more = int(time.time() // every_s) if every_s else None
                return await answer_refresh(request, served, make, more)

            return self.fragment(self.declared.path + path, **options)(refresh)

        return declare

    def _register(
        self,
        path: str,
        responses: dict[int, str],
        wrap: Callable[[RouteHandler], RouteHandler],
        options: dict[str, Any],
    ) -> Callable[[RouteHandler], RouteHandler]:
        access = options.pop("access", self._access)
        responses = responses | dict(self._errors) | options.pop("responses", {})
        query = options.pop("query", self._query)

        def declare(handler: RouteHandler) -> RouteHandler:
            served = wrap(access(handler))
            documented(responses, media_type=HTML, query=query, **options)(served)
            return self.get(path)(served)

        return declare


async def find_served(request: web.Request) -> Served:
    """Return the pipeline in the path. Raises NotFound."""
    uid = request.match_info["uid"]
    try:
        return await get_services(request).directory.find(uid)
    except NotFound as error:
        raise NotFound(f"No pipeline {uid[:100]!r} is active.") from error


@web.middleware
async def show_missing_page(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer a browser's request for an unknown path with a page instead of problem JSON."""
    error = request.match_info.http_exception
    if error is None or error.status != NotFound.status:
        return await handler(request)
    if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
        return await handler(request)
    has_oauth = request.app[OPTIONS].has_oauth
    hint = find_path_hint(request.path, NotFound.status, has_oauth=has_oauth)
    problem = NotFound(hint.detail if hint else "There is no page at this address.")
    return _render_error(request, problem, title="Page not found")


def redirect_to_login(request: web.Request) -> web.Response:
    """Redirect to the login page, which returns to the current page."""
    target = request.rel_url.raw_path_qs.removeprefix(request.app[OPTIONS].base_path)
    is_page = PAGE_PATHS.fullmatch(target) and target != "/"
    query = f"?next={quote(target, safe='/')}" if is_page else ""
    return redirect(request, f"/login{query}")


def _render_error(request: web.Request, problem: Problem, title: str = "") -> web.Response:
    if isinstance(problem, NotAllowed):
        title = "Permission denied"
    frame = _frame_values(request, None) | {"title": title or problem.title}
    response = render(request, "error.html", problem.status, problem=problem, **frame)
    headers = problem.as_response().headers
    if hdrs.RETRY_AFTER in headers:
        response.headers[hdrs.RETRY_AFTER] = headers[hdrs.RETRY_AFTER]
    return response


@open_to_all
async def show_overview(request: web.Request) -> web.Response:
    """Redirect from the base path, which lacks the last slash, to the overview."""
    return redirect(request, "/")


@routes.get(r"/static/{name:([a-z]+/)?[^/]+}")
@documented(
    {200: "The file.", 304: "The file has not changed."}, media_type=ANY, ident="assets.static"
)
@open_to_all
async def static(request: web.Request) -> web.Response:
    """Return a static file of the console."""
    return asset_response(request, request.match_info["name"])


async def answer_refresh(
    request: web.Request,
    served: Served,
    make: Callable[[], Awaitable[web.Response]],
    more: object = None,
) -> web.Response:
    """Return a part of a page as `make` renders it, or 304 if its pipeline has not changed.

    `more` is a further state on which the part depends.

    A request with `Cache-Control: no-cache`, which follows a change of the page itself, reads the
    state again.
    """
    wants_new = "no-cache" in request.headers.get(hdrs.CACHE_CONTROL, "")
    state = await request.config_dict[STATES].get(served, refresh=wants_new)
    return await answer_changed(request, (state, served.deployed.version, more), make)


async def answer_changed(
    request: web.Request, state: object, make: Callable[[], Awaitable[web.Response]]
) -> web.Response:
    """Return a part of a page as `make` renders it, or 304 if its state has not changed."""
    tag = make_tag(request, state)
    if is_unchanged(request, tag):
        return not_modified(tag)
    response = await make()
    response.headers[hdrs.ETAG] = f'"{tag}"'
    return response


def make_tag(request: web.Request, state: object) -> str:
    """Return the ETag of a part: it depends on a state, the address and the caller's rights."""
    caller = get_caller(request)
    rights = sorted(caller.scopes), sorted(caller.pipelines)
    return sha256(repr((state, request.path_qs, rights)).encode()).hexdigest()[:16]


def refuse_fault(fault: str) -> None:
    """Keep the content of an open page if there is a fault, which the page then shows.

    Raises Unavailable.
    """
    if fault:
        raise Unavailable(fault, notice=fault)


async def answer_tagged(
    request: web.Request, state: object, template: str, /, **values: Any
) -> web.Response:
    """Return a part of a page that depends only on a state, or 304 if the client has it."""

    async def make() -> web.Response:
        return render(request, template, **values)

    return await answer_changed(request, state, make)


def not_modified(tag: str) -> web.Response:
    """Return the response to a client that has the part of a page with this ETag."""
    return web.Response(status=304, headers=HEADERS | {hdrs.ETAG: f'"{tag}"'})
