"""The endpoints that clients call: registration (RFC 7591), tokens, and revocation (RFC 7009)."""

from collections.abc import Mapping

import orjson
from aiohttp import web

from memrelay.logs import get_logger
from memrelay.memory.control.oauth import InvalidGrant, Issued, Redemption, Renewal
from memrelay.web.auth.access import open_to_all
from memrelay.web.oauth.authorization_server import REGISTRATIONS_A_MINUTE, get_server
from memrelay.web.oauth.clients import InvalidClient, describe_redirect, read_metadata
from memrelay.web.oauth.errors import OAuthError, oauth_json
from memrelay.web.oauth.requests import IMPLIED_SCOPES, make_challenge, parse_parameters
from memrelay.web.oauth.resources import find_resource
from memrelay.web.server.connection_limits import reading_unverified
from memrelay.web.server.errors import TooLarge, TooManyRequests
from memrelay.web.server.request_body import read_body
from memrelay.web.services import get_services

log = get_logger(__name__)
MAX_FORM_BYTES, MAX_METADATA_BYTES = 16_384, 65_536
FORM = "application/x-www-form-urlencoded"


async def register_client(request: web.Request) -> web.Response:
    """Register a public client.

    Raises OAuthError, and TooManyRequests for an address with 10 registrations in a minute.
    """
    server = get_server(request)
    if wait_s := server.registrations.take(request.remote):
        raise TooManyRequests(
            f"an address may register {REGISTRATIONS_A_MINUTE} clients a minute; retry in "
            f"{wait_s:.0f} s, or use a client id metadata document",
            wait_s,
        )
    try:
        given = orjson.loads(await _read(request, MAX_METADATA_BYTES))
        name, uris = read_metadata(given if isinstance(given, dict) else {})
    except InvalidClient as error:
        raise OAuthError(error.code, str(error)) from error
    except orjson.JSONDecodeError as error:
        raise OAuthError("invalid_client_metadata", "the body is not JSON") from error
    now_ms = get_services(request).authorizer.now_ms
    client = await server.rows.register(name or describe_redirect(uris[0]), uris, now_ms)
    log.info("oauth_client_registered", client=client.id, client_name=client.name)
    return oauth_json(
        {
            "client_id": client.id,
            "client_id_issued_at": now_ms // 1000,
            "client_name": client.name,
            "redirect_uris": list(uris),
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
        },
        201,
    )


async def issue_tokens(request: web.Request) -> web.Response:
    """Exchange a code or a refresh token for tokens. Raises OAuthError."""
    form = await _read_form(request)
    now_ms = get_services(request).authorizer.now_ms
    kind = form.get("grant_type")
    try:
        if kind == "authorization_code":
            issued = await _redeem(request, form, now_ms)
        elif kind == "refresh_token":
            issued = await _refresh(request, form, now_ms)
        else:
            raise OAuthError(
                "unsupported_grant_type", "grant_type must be authorization_code or refresh_token"
            )
    except InvalidGrant as error:
        if error.revoked:
            log.warning("oauth_reused", grant=error.revoked, client=form.get("client_id", "")[:200])
            await get_services(request).authorizer.get_credentials(refresh=True)
        raise OAuthError("invalid_grant", str(error)) from error
    # Otherwise the cached credentials reject the token for up to a second.
    await get_services(request).authorizer.get_credentials(refresh=True)
    event = "oauth_refreshed" if kind == "refresh_token" else "oauth_issued"
    log.info(event, grant=issued.grant, client=form["client_id"][:200])
    return oauth_json(
        {
            "access_token": issued.access_token,
            "token_type": "Bearer",
            "expires_in": issued.lifetime_s,
            "refresh_token": issued.refresh_token,
            "scope": " ".join(issued.scopes),
        }
    )


async def _redeem(request: web.Request, form: Mapping[str, str], now_ms: int) -> Issued:
    names = ("code", "redirect_uri", "client_id", "code_verifier")
    code, redirect_uri, client, verifier = _require(form, *names)
    given = Redemption(
        client, redirect_uri, make_challenge(verifier), _read_resource(request, form)
    )
    return await get_server(request).rows.redeem(code, given, now_ms)


async def _refresh(request: web.Request, form: Mapping[str, str], now_ms: int) -> Issued:
    token, client = _require(form, "refresh_token", "client_id")
    resource, scopes = _read_resource(request, form), form.get("scope", "").split()
    given = Renewal(client, resource, [one for one in scopes if one not in IMPLIED_SCOPES])
    return await get_server(request).rows.refresh(token, given, now_ms)


async def revoke_token(request: web.Request) -> web.Response:
    """Revoke the grant of a token. An unknown token is revoked already. Raises OAuthError."""
    form = await _read_form(request)
    token, client = _require(form, "token", "client_id")
    services = get_services(request)
    try:
        grant = await get_server(request).rows.revoke(token, client, services.authorizer.now_ms)
    except InvalidGrant as error:
        raise OAuthError("invalid_client", str(error)) from error
    if grant:
        await services.authorizer.get_credentials(refresh=True)
        log.info("oauth_revoked", grant=grant, client=client[:200])
    return oauth_json({})


def _require(form: Mapping[str, str], *names: str) -> list[str]:
    """Return parameters. Raises OAuthError: one is missing."""
    missing = [name for name in names if name not in form]
    if missing:
        raise OAuthError("invalid_request", f"{' and '.join(missing)} must be sent in the form")
    return [form[name] for name in names]


def _read_resource(request: web.Request, form: Mapping[str, str]) -> str:
    """Return the path of the resource in a form, "" without one. Raises OAuthError."""
    if "resource" not in form:
        return ""
    found = find_resource(form["resource"], get_server(request).issuer)
    if found is None:
        raise OAuthError("invalid_target", "resource is no MCP server of this host")
    return found.path


async def _read_form(request: web.Request) -> dict[str, str]:
    if request.content_type != FORM:
        raise OAuthError("invalid_request", f"the body must have Content-Type: {FORM}")
    try:
        return parse_parameters((await _read(request, MAX_FORM_BYTES)).decode())
    except ValueError as error:
        raise OAuthError("invalid_request", f"the form is malformed: {error}") from error


async def _read(request: web.Request, max_bytes: int) -> bytes:
    """Return the body. Raises OAuthError: it is too long."""
    try:
        with reading_unverified(request):
            body = await read_body(request, max_bytes)
    except TooLarge as error:
        raise OAuthError("invalid_request", str(error)) from error
    if len(body) > max_bytes:
        raise OAuthError("invalid_request", f"the body has more than {max_bytes} bytes")
    return body


routes = (
    web.post("/oauth/register", open_to_all(register_client)),
    web.post("/oauth/token", open_to_all(issue_tokens)),
    web.post("/oauth/revoke", open_to_all(revoke_token)),
)
