"""Logging in: a browser shows a key once, in a form, and has a session from then on. The key itself
it does not keep."""

from urllib.parse import parse_qs

from aiohttp import hdrs, web

from memrelay.web.auth.access import open_to_all
from memrelay.web.auth.authorizer import COOKIE
from memrelay.web.console.frame import HEADERS, PAGES, as_page, show
from memrelay.web.openapi.route_docs import FORM, HTML, described
from memrelay.web.openapi.shapes import Login
from memrelay.web.server.errors import BadRequest, Unauthorized
from memrelay.web.server.request_body import read_body
from memrelay.web.server.services import services_of

routes = web.RouteTableDef()
SESSION_S = 12 * 3600
MOST_FIELDS, MOST_BYTES = 4, 4096  # of the form


@routes.get("/login")
@described(
    {200: "the form", 303: "no key is needed"}, kind=HTML, query={"next": "the page to go on to"}
)
@open_to_all
@as_page
async def ask_for_key(request: web.Request) -> web.Response:
    """The form; where no key was ever made, the way on."""
    parts = services_of(request)
    caller = await parts.authoriser.caller_or_stranger(request)
    if caller.sees_all and not caller.key:
        return _to("/")
    return show("login.html", fault="", next=_next(request.query.get("next", "")))


@routes.post("/login")
@described(
    {303: "logged in", 401: "the form again"},
    kind=HTML,
    body="`key` and `next`",
    takes=FORM,
    accepts=Login,
)
@open_to_all
@as_page
async def log_in(request: web.Request) -> web.Response:
    """Begins a session for who shows a key that is in force, and sets its cookie; 401 with the form
    for who does not."""
    parts, form = services_of(request), await _form(request)
    authoriser, goal = parts.authoriser, _next(form.get("next", ""))
    try:
        caller = (await authoriser.ring(anew=True)).by_key(
            form.get("key", "").strip(), authoriser.now_ms
        )
    except Unauthorized as fault:
        return show(
            "login.html", 401, fault=f"{fault.detail[:1].upper()}{fault.detail[1:]}.", next=goal
        )
    now_ms = authoriser.now_ms
    ends_at = min(now_ms + SESSION_S * 1000, caller.expires_at or now_ms + SESSION_S * 1000)
    token = await parts.catalog.sessions.begin(caller.key, ends_at, now_ms)
    await authoriser.ring(anew=True)
    response = _to(goal)
    response.set_cookie(
        COOKIE,
        token,
        max_age=(ends_at - now_ms) // 1000,
        path="/",
        httponly=True,
        samesite="Strict",
        secure=request.headers.get(hdrs.ORIGIN, "").startswith("https:"),
    )
    return response


@routes.post("/logout")
@described({303: "logged out"}, kind=HTML)
@open_to_all
@as_page
async def log_out(request: web.Request) -> web.Response:
    """Ends the session of who has one."""
    parts = services_of(request)
    if token := request.cookies.get(COOKIE):
        await parts.catalog.sessions.end(token)
        await parts.authoriser.ring(anew=True)
    response = _to("/login")
    response.del_cookie(COOKIE, path="/", httponly=True, samesite="Strict")
    return response


async def _form(request: web.Request) -> dict[str, str]:
    """The first value of each field. Raises BadRequest."""
    body = await read_body(request)
    try:
        if len(body) > MOST_BYTES:
            raise ValueError("too long")
        return {
            name: values[0]
            for name, values in parse_qs(body.decode(), max_num_fields=MOST_FIELDS).items()
        }
    except ValueError as error:
        raise BadRequest("this is not the form of /login") from error


def _next(path: str) -> str:
    """A page of ours, and nowhere else."""
    return path if PAGES.fullmatch(path) else "/"


def _to(path: str) -> web.Response:
    return web.Response(status=303, headers=HEADERS | {hdrs.LOCATION: path})
