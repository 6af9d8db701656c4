"""The identity that an interface passes to item operations: agent, user, chat, and `vouched`."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from memrelay.memory.engine.identity import VOUCHED
from memrelay.web.auth.access import get_caller
from memrelay.web.auth.authorizer import TokenIdentity
from memrelay.web.server.errors import BadRequest, NotAllowed

AGENT, USER, CHAT = "agent", "user", "chat"


def identity_of(request: web.Request, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the identity of a call. `given` has the fields agent, user and chat of the request.

    A key or a service may name any agent, and its user and chat are vouched for. The JWT of an
    agent vouches only for the user in it. The result has no `agent` if neither names one.

    Raises BadRequest: the request names `vouched`. NotAllowed: the JWT is of another agent.
    """
    refuse_vouched(given)
    named = {name: given[name] for name in (AGENT, USER, CHAT) if given.get(name) not in (None, "")}
    token = get_caller(request).token
    if token is None or not token.agent:
        return named | {VOUCHED: [CHAT, USER]}
    return _limit_to_token(named, token)


def _limit_to_token(named: dict[str, Any], token: TokenIdentity) -> dict[str, Any]:
    """Return the identity that the JWT of an agent allows. Raises NotAllowed."""
    if named.setdefault(AGENT, token.agent) != token.agent:
        raise NotAllowed("the JWT is of another agent; omit the agent, or send its own id")
    if token.user:
        named.setdefault(USER, token.user)
    is_own_user = bool(token.user) and named[USER] == token.user
    return named | {VOUCHED: [USER] if is_own_user else []}


def refuse_vouched(given: Mapping[str, Any]) -> None:
    """Raise BadRequest if a request names the field that only interfaces set."""
    if VOUCHED in given:
        raise BadRequest(f"{VOUCHED} is set by the server; omit it")
