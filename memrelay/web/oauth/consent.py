"""The pages of an authorization: `/oauth/authorize` leads to `/oauth/consent`, where users decide.

A browser that comes from another site does not send the session's cookie (SameSite=Strict). So the
first page only leads to the second one, which the browser requests as a page of this site. Nothing
is fetched and nothing is sent to a client before a signed-in user has asked for it.
"""

from collections.abc import Sequence
from hashlib import sha256
from hmac import compare_digest, digest
from typing import NamedTuple
from urllib.parse import parse_qs

from aiohttp import hdrs, web

from memrelay.logs import get_logger
from memrelay.memory.control.keys import GRANTABLE
from memrelay.memory.control.oauth import Client, Consent
from memrelay.web.auth.access import get_caller, list_visible, open_to_all, requires
from memrelay.web.auth.authorizer import COOKIE, Caller
from memrelay.web.console.frame import HEADERS, Page, as_page, render_page
from memrelay.web.oauth.authorization_server import get_server
from memrelay.web.oauth.clients import describe_redirect, find_form_target, has_redirect
from memrelay.web.oauth.requests import (
    MAX_QUERY,
    AuthorizationRequest,
    make_redirect,
    parse_authorization,
)
from memrelay.web.server.browser_guard import CONTENT_SECURITY_POLICY, SECURITY_HEADERS
from memrelay.web.server.errors import BadRequest, NotAllowed, NotFound, TooLarge, Unauthorized
from memrelay.web.server.request_body import read_body
from memrelay.web.services import get_services

log = get_logger(__name__)
PAGE = Page("Connect", "/oauth/consent", scopes=())
MAX_FORM_BYTES, MAX_FORM_FIELDS = 4_096, 12
DAY_MS = 86_400_000
# The lifetimes of a grant in days, and the chosen one.
LIFETIMES, CHOSEN_DAYS = (1, 7, 30, 90), 30
SCOPE_NOTES = {
    "search": "find memories that match a question",
    "read": "list and read all memories, and their history",
    "write": "keep, correct and change memories",
    "append": "add to notes",
    "delete": "forget memories; they can be restored for some time",
}


class Choice(NamedTuple):
    """What the user has chosen in the form. `days` is the lifetime of the grant."""

    is_allowed: bool
    scopes: list[str]
    pipeline: str
    days: int
    csrf: str


@open_to_all
@as_page
async def authorize(request: web.Request) -> web.StreamResponse:
    """Lead the browser to the consent page as a page of this site."""
    query = request.rel_url.raw_query_string
    if len(query) > MAX_QUERY:
        raise BadRequest(f"the parameters have more than {MAX_QUERY} characters")
    return await render_page(request, PAGE, "oauth_authorize.html", query=query)


@as_page
@requires(*GRANTABLE)
async def show_consent(request: web.Request) -> web.StreamResponse:
    """Show who asks for what. Nothing is granted before the user sends the form."""
    caller = _check_session(request)
    asked, client = await _read_request(request)
    now_ms = get_services(request).authorizer.now_ms
    response = await render_page(
        request,
        PAGE,
        "oauth_consent.html",
        client=client,
        target=describe_redirect(asked.redirect_uri),
        scopes=[(one, SCOPE_NOTES[one], one in asked.scopes) for one in _grantable(caller)],
        lacking=[one for one in asked.scopes if one not in caller.scopes],
        pipelines=await _list_pipelines(request, asked),
        lifetimes=_list_days(caller, now_ms),
        chosen_days=CHOSEN_DAYS,
        query=request.rel_url.raw_query_string,
        csrf=_make_csrf(request),
    )
    # A browser checks the redirect after the form too.
    policy = SECURITY_HEADERS[CONTENT_SECURITY_POLICY]
    response.headers[CONTENT_SECURITY_POLICY] = policy.replace(
        "form-action 'self'", f"form-action 'self' {find_form_target(asked.redirect_uri)}"
    )
    return response


@as_page
@requires(*GRANTABLE)
async def decide(request: web.Request) -> web.StreamResponse:
    """Send the browser back to the client, with a code if the user has allowed it."""
    caller = _check_session(request)
    choice = await _read_choice(request)
    if not compare_digest(choice.csrf.encode(errors="replace"), _make_csrf(request).encode()):
        raise NotAllowed("the form is not from this session; start again in the client")
    await _check_current(request, caller)
    asked, client = await _read_request(request)
    issuer = get_server(request).issuer
    if not choice.is_allowed:
        log.info("oauth_denied", client=client.id, key=caller.key)
        return _redirect(make_redirect(asked, issuer, error="access_denied"))
    consent = await _make_consent(request, asked, client, choice)
    now_ms = get_services(request).authorizer.now_ms
    code = await get_server(request).rows.add_code(consent, now_ms)
    log.info(
        "oauth_consent",
        client=client.id,
        key=caller.key,
        pipeline=consent.pipeline,
        scopes=consent.scopes,
        days=choice.days,
    )
    return _redirect(make_redirect(asked, issuer, code=code))


def _check_session(request: web.Request) -> Caller:
    """Return the caller if it is a browser's session. Raises NotAllowed and Unauthorized."""
    caller = get_caller(request)
    if not caller.key:
        raise NotAllowed(
            "a connection belongs to a key, and none exists yet; create one with `memrelay keys "
            "create`, log in with it, and start again in the client"
        )
    if not caller.session:
        raise Unauthorized("log in at /login with a browser")
    return caller


async def _check_current(request: web.Request, caller: Caller) -> None:
    """Raise Unauthorized if the session or its key ended within the last second."""
    authorizer = get_services(request).authorizer
    credentials = await authorizer.get_credentials(refresh=True)
    if fault := credentials.find_fault(caller, authorizer.now_ms):
        raise Unauthorized(fault)


async def _read_request(request: web.Request) -> tuple[AuthorizationRequest, Client]:
    """Return the request in the URL and its client. Raises BadRequest.

    A redirect URI that is not the client's gets no answer, so that no code goes elsewhere.
    """
    server = get_server(request)
    asked = parse_authorization(request.rel_url.raw_query_string, server.issuer)
    client = await server.clients.find(asked.client_id, get_services(request).authorizer.now_ms)
    if not has_redirect(client, asked.redirect_uri):
        raise BadRequest("redirect_uri is none of the client's redirect URIs, letter for letter")
    return asked, client


async def _list_pipelines(
    request: web.Request, asked: AuthorizationRequest
) -> Sequence[tuple[str, str]]:
    """Return the uids and names of the pipelines that may be granted. Raises NotFound."""
    visible = [
        (one.deployed.uid, one.deployed.name) for one in await list_visible(request, refresh=True)
    ]
    uid = asked.resource.uid
    found = [one for one in visible if uid in ("", one[0])]
    if not found:
        which = f"no pipeline {uid!r} is active" if uid else "no pipeline is active"
        raise NotFound(f"For the key with which you are logged in, {which}.")
    return found


async def _make_consent(
    request: web.Request, asked: AuthorizationRequest, client: Client, choice: Choice
) -> Consent:
    """Return what the user grants. Raises NotAllowed: more than the key may do, or nothing."""
    caller, now_ms = get_caller(request), get_services(request).authorizer.now_ms
    if not choice.scopes or not set(choice.scopes) <= set(_grantable(caller)):
        raise NotAllowed("choose at least one scope, and only scopes of your key")
    if choice.pipeline not in [uid for uid, _ in await _list_pipelines(request, asked)]:
        raise NotAllowed("choose a pipeline of your key that the client has asked for")
    if choice.days not in _list_days(caller, now_ms):
        raise NotAllowed("choose a lifetime of the form; your key must last as long")
    ends_at = now_ms + choice.days * DAY_MS if choice.days else caller.expires_at
    assert ends_at is not None
    return Consent(
        client.id,
        client.name,
        asked.redirect_uri,
        asked.challenge,
        asked.resource.path,
        caller.key,
        choice.scopes,
        choice.pipeline,
        ends_at,
    )


def _grantable(caller: Caller) -> list[str]:
    return [one for one in GRANTABLE if one in caller.scopes]


def _list_days(caller: Caller, now_ms: int) -> list[int]:
    """Return the lifetimes in days that end before the key does. [0]: when the key ends."""
    ends_at = caller.expires_at
    return [days for days in LIFETIMES if ends_at is None or now_ms + days * DAY_MS <= ends_at] or [
        0
    ]


async def _read_choice(request: web.Request) -> Choice:
    """Return the fields of the form. Raises BadRequest."""
    try:
        body = await read_body(request, MAX_FORM_BYTES)
        form = parse_qs(body.decode(), max_num_fields=MAX_FORM_FIELDS)
        return Choice(
            form.get("decision") == ["allow"],
            form.get("scopes", []),
            form.get("pipeline", [""])[0],
            int(form.get("days", ["0"])[0][:4]),
            form.get("csrf", [""])[0],
        )
    except (ValueError, TooLarge) as error:
        raise BadRequest("the body is not the form of this page") from error


def _make_csrf(request: web.Request) -> str:
    """Return a token that only this session has, and only for this authorization request."""
    session = request.cookies.get(COOKIE, "").encode(errors="replace")
    query = sha256(request.rel_url.raw_query_string.encode()).digest()
    return digest(session, b"oauth-consent" + query, "sha256").hex()


def _redirect(url: str) -> web.Response:
    return web.Response(status=303, headers=HEADERS | {hdrs.LOCATION: url})


routes = (
    web.get("/oauth/authorize", authorize),
    web.get("/oauth/consent", show_consent),
    web.post("/oauth/consent", decide),
)
