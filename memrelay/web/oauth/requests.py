"""Authorization requests, the parameters of a request, and the answers at a redirect URI."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import parse_qsl, urlencode

from memrelay.memory.control.keys import DEFAULT_SCOPES, GRANTABLE
from memrelay.web.oauth.resources import Resource, find_resource
from memrelay.web.server.errors import BadRequest

# The login returns to a page with at most so many characters of parameters.
MAX_QUERY, MAX_PARAMETERS, MAX_STATE = 2_000, 30, 1_000
CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
# A scope that asks for a refresh token. Every grant has one.
IMPLIED_SCOPES = frozenset({"offline_access"})


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """What a client asks of a user. `scopes` are those of GRANTABLE that it names."""

    client_id: str
    redirect_uri: str
    challenge: str
    state: str | None
    scopes: tuple[str, ...]
    resource: Resource


def parse_parameters(text: str) -> dict[str, str]:
    """Return the parameters of a query or a form. Raises ValueError: one is repeated, or too many.

    An empty parameter counts as absent.
    """
    pairs = parse_qsl(text, max_num_fields=MAX_PARAMETERS)
    parameters = dict(pairs)
    if len(parameters) != len(pairs):
        raise ValueError("a parameter is repeated")
    return parameters


def parse_authorization(query: str, issuer: str) -> AuthorizationRequest:
    """Parse the query of an authorization request. Raises BadRequest.

    Nothing is sent to the redirect URI for a fault: anyone can make a user follow such a link.
    """
    if len(query) > MAX_QUERY:
        raise BadRequest(f"the parameters have more than {MAX_QUERY} characters")
    try:
        given = parse_parameters(query)
    except ValueError as error:
        raise BadRequest(f"the authorization request is malformed: {error}") from error
    _check_fixed(given)
    challenge, state = given.get("code_challenge", ""), given.get("state")
    if not CHALLENGE.fullmatch(challenge):
        raise BadRequest("code_challenge must be the SHA-256 of the verifier in base64url (PKCE)")
    if state is not None and (len(state) > MAX_STATE or not state.isprintable()):
        raise BadRequest(f"state must have at most {MAX_STATE} printable characters")
    resource = find_resource(given.get("resource", ""), issuer)
    if resource is None:
        raise BadRequest(f"resource must be the URL of the MCP server, such as {issuer}/mcp/UID")
    return AuthorizationRequest(
        given.get("client_id", ""),
        given.get("redirect_uri", ""),
        challenge,
        state,
        parse_scopes(given.get("scope", "")),
        resource,
    )


def _check_fixed(given: Mapping[str, str]) -> None:
    """Check the parameters that have only one accepted value. Raises BadRequest."""
    if given.get("response_type") != "code":
        raise BadRequest("response_type must be `code`")
    if given.get("response_mode", "query") != "query":
        raise BadRequest("response_mode must be `query`")
    if "request" in given or "request_uri" in given:
        raise BadRequest("request objects are not supported; send plain parameters")
    if given.get("code_challenge_method") != "S256":
        raise BadRequest("code_challenge_method must be S256")


def parse_scopes(text: str) -> tuple[str, ...]:
    """Return the named scopes, by default those of DEFAULT_SCOPES. Raises BadRequest."""
    named = set(text.split()) - IMPLIED_SCOPES
    if unknown := named - set(GRANTABLE):
        raise BadRequest(f"unknown scope {min(unknown)[:50]!r}; choose from {', '.join(GRANTABLE)}")
    return tuple(one for one in GRANTABLE if one in (named or DEFAULT_SCOPES))


def make_challenge(verifier: str) -> str:
    """Return the challenge of a PKCE verifier by S256, "" for a malformed one."""
    if not VERIFIER.fullmatch(verifier):
        return ""
    return base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def make_redirect(request: AuthorizationRequest, issuer: str, **answer: str) -> str:
    """Return the redirect URI with an answer, the state, and the issuer (RFC 9207)."""
    state = {} if request.state is None else {"state": request.state}
    query = urlencode(answer | state | {"iss": issuer})
    return f"{request.redirect_uri}{'&' if '?' in request.redirect_uri else '?'}{query}"
