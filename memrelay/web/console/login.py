"""Login: a browser submits a key once and then has a session. The browser does not keep the key."""

from urllib.parse import parse_qs

from aiohttp import hdrs, web

from memrelay.web.auth.access import open_to_all
from memrelay.web.auth.authorizer import COOKIE, Caller
from memrelay.web.console.format import capitalize_first
from memrelay.web.console.frame import PAGE_PATHS, Page, as_page, redirect, render_page
from memrelay.web.openapi.route_docs import FORM, HTML, documented
from memrelay.web.openapi.shapes import Login
from memrelay.web.server.connection_limits import reading_unverified
from memrelay.web.server.errors import BadRequest, TooLarge, Unauthorized
from memrelay.web.server.options import OPTIONS
from memrelay.web.server.request_body import read_body
from memrelay.web.services import get_services

PAGE = Page("Log in", "/login", scopes=())
routes = web.RouteTableDef()
SESSION_S = 12 * 3600
MAX_FORM_FIELDS, MAX_FORM_BYTES = 4, 8192


@routes.get("/login")
@documented(
    {200: "The login form.", 303: "No key is required."},
    media_type=HTML,
    query={"next": "The page to show after the login."},
)
@open_to_all
@as_page
async def show_form(request: web.Request) -> web.Response:
    """Show the login form, or redirect to the overview if no key exists."""
    caller = await get_services(request).authorizer.get_caller_or_anonymous(request)
    if caller.sees_all and not caller.key:
        return redirect(request, "/")
    return await _render_form(request, 200, "", _parse_next(request.query.get("next", "")))


@routes.post("/login")
@documented(
    {303: "Logged in.", 401: "The key is invalid. The form is shown again."},
    media_type=HTML,
    body="`key` and `next`.",
    body_type=FORM,
    body_schema=Login,
)
@open_to_all
@as_page
async def log_in(request: web.Request) -> web.Response:
    """Start a session for a valid key and set its cookie."""
    form = await _read_form(request)
    authorizer = get_services(request).authorizer
    target = _parse_next(form.get("next", ""))
    try:
        credentials = await authorizer.get_credentials(refresh=True)
        caller = credentials.authenticate_key(form.get("key", "").strip(), authorizer.now_ms)
    except Unauthorized as error:
        fault = f"{capitalize_first(error.detail)}."
        return await _render_form(request, 401, fault, target)
    token, max_age_s = await _start_session(request, caller)
    response = redirect(request, target)
    response.set_cookie(
        COOKIE,
        token,
        max_age=max_age_s,
        path=request.app[OPTIONS].base_path or "/",
        httponly=True,
        samesite="Strict",
        secure=request.secure or request.headers.get(hdrs.ORIGIN, "").startswith("https:"),
    )
    return response


async def _render_form(request: web.Request, status: int, fault: str, target: str) -> web.Response:
    response = await render_page(request, PAGE, "login.html", fault=fault, next=target)
    response.set_status(status)
    return response


async def _start_session(request: web.Request, caller: Caller) -> tuple[str, int]:
    """Return a session token and its lifetime in s. It expires no later than the key."""
    services = get_services(request)
    now_ms = services.authorizer.now_ms
    latest_ms = now_ms + SESSION_S * 1000
    expires_at_ms = min(latest_ms, caller.expires_at or latest_ms)
    token = await services.catalog.sessions.begin(caller.key, expires_at_ms, now_ms)
    await services.authorizer.get_credentials(refresh=True)
    return token, (expires_at_ms - now_ms) // 1000


@routes.post("/logout")
@documented({303: "Logged out."}, media_type=HTML)
@open_to_all
@as_page
async def log_out(request: web.Request) -> web.Response:
    """End the session, if there is one."""
    services = get_services(request)
    if token := request.cookies.get(COOKIE):
        await services.catalog.sessions.end(token)
        await services.authorizer.get_credentials(refresh=True)
    response = redirect(request, "/login")
    path = request.app[OPTIONS].base_path or "/"
    response.del_cookie(COOKIE, path=path, httponly=True, samesite="Strict")
    return response


async def _read_form(request: web.Request) -> dict[str, str]:
    """Return the first value of each form field. Raises BadRequest."""
    try:
        with reading_unverified(request):
            body = await read_body(request, MAX_FORM_BYTES)
        if len(body) > MAX_FORM_BYTES:
            raise ValueError("too long")
        fields = parse_qs(body.decode(), max_num_fields=MAX_FORM_FIELDS)
    except (ValueError, TooLarge) as error:
        raise BadRequest("the body is not the form of /login") from error
    return {name: values[0] for name, values in fields.items()}


def _parse_next(path: str) -> str:
    """Return the path if it is a page of the console, otherwise the overview."""
    return path if PAGE_PATHS.fullmatch(path) else "/"
