"""The identity that an interface passes to item operations: agent, user, chat, and `vouched`."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from memrelay.memory.items.identity import VOUCHED
from memrelay.web.server.errors import BadRequest

AGENT, USER, CHAT = "agent", "user", "chat"


def identity_of(request: web.Request, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the identity of a call. `given` has the fields agent, user and chat of the request.

    A key may name any agent, and its user and chat are vouched for. The result has no `agent` if
    the request names none. Raises BadRequest if the request names `vouched`.
    """
    refuse_vouched(given)
    named = {name: given[name] for name in (AGENT, USER, CHAT) if given.get(name) not in (None, "")}
    return named | {VOUCHED: [CHAT, USER]}


def refuse_vouched(given: Mapping[str, Any]) -> None:
    """Raise BadRequest if a request names the field that only interfaces set."""
    if VOUCHED in given:
        raise BadRequest(f"{VOUCHED} is set by the server; omit it")
