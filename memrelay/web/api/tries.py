"""POST /v1/pipelines/UID/try: what a bundle would do with one message. Nothing is deployed."""

import asyncio
import time
from typing import Any

import orjson
from aiohttp import web
from msgspec import Struct, ValidationError, convert

from memrelay.guarded_http.rules import OutgoingRules
from memrelay.pipelines.block_catalog import list_block_folders
from memrelay.pipelines.check import CheckedBundle, check
from memrelay.pipelines.request_targets import find_refusal
from memrelay.web.api.answers import json_response
from memrelay.web.api.pipelines import get_accepted
from memrelay.web.api.try_process import TRIES
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.openapi.route_docs import documented
from memrelay.web.openapi.shapes import MessageToTry, MessageTried
from memrelay.web.server.errors import BadRequest, Unprocessable
from memrelay.web.server.request_body import read_json_body
from memrelay.web.services import get_services

routes = web.RouteTableDef()
EMPTY, COPY = "empty", "copy"
SWARM, USER = "chat", "User"


class _Given(Struct, forbid_unknown_fields=True):
    """The fields of the body."""

    bundle: dict[str, Any]
    text: str
    swarm: str = ""
    agent: str = ""
    user: str = USER
    data: dict[str, Any] = {}
    stores: str = EMPTY


@routes.post("/v1/pipelines/{uid}/try")
@documented(
    {
        200: "What each block received, published, stored, found and would have sent.",
        422: "The bundle has faults, or a field is invalid.",
        429: "Another try of this key runs.",
    },
    body="The bundle and the message.",
    body_schema=MessageToTry,
    schemas={200: MessageTried},
)
@requires("deploy")
async def try_message(request: web.Request) -> web.Response:
    """Run a message through a bundle that is not deployed, on empty or copied stores.

    Nothing stays and nothing is sent. Secrets are placeholders.
    """
    given = _parse(await read_json_body(request))
    services, caller = get_services(request), get_caller(request)
    uid, options = request.match_info["uid"], services.options
    source = orjson.dumps(given.bundle)
    async with services.checks.turn(caller.key):
        checked = await asyncio.to_thread(
            check,
            source,
            uid=uid,
            secrets=services.secrets,
            timezone=options.timezone,
            public_url=options.public_url,
        )
    bundle = get_accepted(checked)
    caller.check_bundle(bundle, services.secrets)
    if given.stores == COPY:
        caller.check("read", uid)
    swarm = _find_swarm(bundle, given)
    tries = request.app[TRIES]
    async with tries.turn(caller.key):
        report = await tries.run(
            {
                "bundle": source.decode(),
                "uid": bundle.uid,
                "timezone": options.timezone,
                "text": given.text,
                "now_ms": time.time_ns() // 1_000_000,
                "swarm": swarm,
                "agent": given.agent,
                "user": given.user or USER,
                "headers": _list_headers(given.data),
                "root": str(services.catalog.root) if given.stores == COPY else "",
                "block_folders": list_block_folders(),
                "refusals": _list_refusals(bundle, services.secrets.outgoing),
                "message_bytes": options.message_bytes,
            }
        )
    return json_response(report)


def _parse(body: bytes) -> _Given:
    """Return the fields of the body. Raises BadRequest, Unprocessable."""
    try:
        given = convert(orjson.loads(body), _Given)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not valid JSON: {error.msg}") from error
    except ValidationError as error:
        raise Unprocessable(f"the body is no message to try: {error}") from error
    if given.stores not in (EMPTY, COPY):
        raise Unprocessable(f"`stores` is {EMPTY} or {COPY}, not {given.stores[:50]!r}")
    if given.swarm and given.agent:
        raise Unprocessable("give either `swarm`, or `agent` for a webhook")
    return given


def _find_swarm(bundle: CheckedBundle, given: _Given) -> str:
    """Return the swarm of the message, "" for a webhook. Raises Unprocessable."""
    if given.agent:
        receivers = [one.agent.alias for one in bundle.agents if one.takes_messages]
        if given.agent not in receivers:
            raise Unprocessable(
                f"no agent {given.agent[:100]!r} takes messages; these do: {', '.join(receivers)}"
            )
        return ""
    swarm = given.swarm or SWARM
    if swarm not in bundle.swarms:
        raise Unprocessable(
            f"the bundle has no swarm {swarm[:100]!r}; it has {', '.join(bundle.swarms)}. "
            "For a webhook, give the alias of its `agent`"
        )
    return swarm


def _list_refusals(bundle: CheckedBundle, rules: OutgoingRules) -> dict[str, str]:
    """Return why this server refuses the requests of agents, by alias."""
    found = {one.agent.alias: find_refusal(one, rules) for one in bundle.agents}
    return {
        alias: f"{refusal}; {refusal.example}" if refusal.example else str(refusal)
        for alias, refusal in found.items()
        if refusal is not None
    }


def _list_headers(data: dict[str, Any]) -> dict[str, str]:
    """Return the headers of a webhook: the texts in `data.headers`, and in `data` itself."""
    headers = data.get("headers")
    found = data | (headers if isinstance(headers, dict) else {})
    return {name: text for name, text in found.items() if isinstance(text, str)}
