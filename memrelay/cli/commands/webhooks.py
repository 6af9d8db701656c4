"""`memrelay webhooks PIPELINE [ALIAS]`: the webhooks of a pipeline and their last requests.

`memrelay webhooks send PROFILE PIPELINE ALIAS` sends a test request to one of them.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from secrets import token_hex
from typing import Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import orjson
import typer

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.cli.composition import (
    bus_address,
    fail,
    make_local_url,
    make_secrets,
    note,
    run,
)
from memrelay.cli.options import Json, JsonAnyway, Pipeline
from memrelay.cli.pipeline import load_bundle
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import table
from memrelay.pipelines.checked import CheckedAgent, CheckedBundle
from memrelay.pipelines.webhook_senders import SENDERS
from memrelay.web.webhooks.request import make_urls
from memrelay.web.webhooks.requests import MAX_ROWS, describe_webhooks, list_receivers
from memrelay.web.webhooks.sample_requests import (
    CannotSign,
    SampleRequest,
    make_sample_request,
)

# Requests of each webhook in a list of all, and of one alone.
FEW, ALL = 5, 2 * MAX_ROWS
# Characters of a column.
MAX_CHARACTERS = 100
HEADING = "TIME", "STATUS", "VERDICT", "EVENT", "DELIVERY", "MESSAGE", "REASON"

Alias = Annotated[
    str | None,
    typer.Argument(
        metavar="ALIAS", help=f"Only this agent, with up to {ALL} requests. All by default."
    ),
]
Profile = Annotated[
    str,
    typer.Argument(
        metavar="PROFILE",
        help="The sender, like github, stripe, slack or standard; `custom` for one that the "
        "bundle describes.",
    ),
]
OneAlias = Annotated[str, typer.Argument(metavar="ALIAS", help="The agent with the webhook.")]
Url = Annotated[
    str,
    typer.Option(
        metavar="URL", help="Base URL of the web server. By default that of the settings."
    ),
]
TIMEOUT_S = 30.0
MAX_ANSWER_BYTES = 1 << 20


def show(pipeline: Pipeline, alias: Alias = None, *, as_json: Json = False) -> None:
    """Show the webhooks of a pipeline: URL, sender, secrets and the last requests.

    Tables on a terminal, otherwise JSON lines. Web servers add requests after half a second.
    """

    async def command(settings: Settings) -> None:
        bundle = await load_bundle(settings, pipeline)
        agents = list_receivers(bundle.agents)
        if alias is not None:
            agents = [_find_agent(bundle, alias)]
        limit = FEW if alias is None else ALL
        async with ReconnectingConnection(bus_address(settings)) as line:
            items = await describe_webhooks(
                line, bundle.uid, agents, _make_server_url(settings), limit
            )
        if as_json or not sys.stdout.isatty():
            for item in items:
                print_json(item)
            return
        for item in items:
            for text in _describe(item):
                print_line(text)

    run(command)


def send(
    profile: Profile,
    pipeline: Pipeline,
    alias: OneAlias,
    *,
    url: Url = "",
    as_json: JsonAnyway = False,
) -> None:
    """Send a test request to a webhook, signed as its sender would sign it.

    Print {url, status, answer, trace_id}. The exit code is 1 if the webhook refuses the request.
    """

    if url and not url.startswith(("http://", "https://")):
        fail(f"{url[:100]!r} is no URL of a web server; use one like http://127.0.0.1:8765")

    async def command(settings: Settings) -> dict[str, Any]:
        bundle = await load_bundle(settings, pipeline)
        agent = _find_agent(bundle, alias)
        path = f"/webhooks/{bundle.uid}/{alias}"
        public = make_urls(settings.web.public_url, path)
        target = (url.rstrip("/") or make_local_url(settings)) + path
        request = _make_request(settings, agent, profile, public[0] if public else target)
        return await asyncio.to_thread(_post, target, request)

    answered = run(command)
    print_json(answered)
    if answered["status"] >= 300:
        raise typer.Exit(1)


def _find_agent(bundle: CheckedBundle, alias: str) -> CheckedAgent:
    """Return an agent that accepts webhooks. End the command if there is none of this name."""
    agents = {agent.agent.alias: agent for agent in list_receivers(bundle.agents)}
    if alias not in agents:
        fail(
            f"pipeline {bundle.name} has no agent {alias!r} that accepts webhooks; choose one "
            f"of them: {', '.join(agents) or 'there are none'}"
        )
    return agents[alias]


def _make_request(settings: Settings, agent: CheckedAgent, profile: str, url: str) -> SampleRequest:
    """Return a test request that the agent accepts. End the command if none can be made."""
    sender, alias = agent.sender or SENDERS["standard"], agent.agent.alias
    if profile != sender.name:
        known = f"`memrelay webhooks send {sender.name} ...`"
        fail(
            f"agent {alias!r} expects requests of {sender.name!r}, not of {profile!r}: use {known}"
        )
    secrets = make_secrets(settings)
    try:
        secret = secrets.read(agent.secrets[0]) if agent.secrets else None
        token = secrets.read(agent.token) if agent.token and secret is None else ""
        made = make_sample_request(sender, secret, url, time.time_ns() // 1_000_000)
    except CannotSign as error:
        fail(f"no test request can be made for {profile}: {error}")
    except (LookupError, ValueError) as error:
        fail(f"the secret of agent {alias!r} cannot be used: {error}")
    if secret is None and not token:
        note(f"agent {alias!r} has no secret, so the request is not signed")
    if token:
        return replace(made, headers=made.headers | {"Authorization": f"Bearer {token}"})
    return made


def _post(url: str, made: SampleRequest) -> dict[str, Any]:
    """Send a request, and return its answer with the id of the trace that it begins."""
    trace_id, span_id = token_hex(16), token_hex(8)
    headers = made.headers | {"traceparent": f"00-{trace_id}-{span_id}-01"}
    try:
        # Without a proxy: the server is on this machine, or one's own.
        opener = build_opener(ProxyHandler({}))
        with opener.open(Request(url, made.body, headers), timeout=TIMEOUT_S) as answer:
            status, text = answer.status, answer.read(MAX_ANSWER_BYTES)
    except HTTPError as error:
        with error:
            status, text = error.code, error.read(MAX_ANSWER_BYTES)
    except URLError as error:
        fail(f"{url} does not answer ({error.reason}); start the web server, or use --url")
    return {"url": url, "status": status, "answer": _parse_answer(text), "trace_id": trace_id}


def _parse_answer(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text.decode(errors="replace")


def _make_server_url(settings: Settings) -> str:
    """Return `web.public_url`, or the address on which the web server listens."""
    web = settings.web
    host = f"[{web.host}]" if ":" in web.host else web.host
    return web.public_url or f"http://{host}:{web.port}{web.base_path}"


def _describe(item: dict[str, Any]) -> Iterator[str]:
    places = [*item["secrets"], *filter(None, [item["token"]]), *item["networks"]]
    yield f"{item['agent']}: {item['url']}"
    yield f"  sender {item['sender']}, {', '.join(places) or 'open to keys with the scope publish'}"
    rows = [
        (
            row["at"],
            str(row["status"]),
            row["verdict"],
            row["event"][:MAX_CHARACTERS],
            row["delivery_id"][:MAX_CHARACTERS],
            row["message_id"],
            row["reason"][:MAX_CHARACTERS] if row["reason"] else row["outcome"],
        )
        for row in item["requests"]
    ]
    lines = table([HEADING, *rows]) if rows else ["No requests yet."]
    yield from (f"  {line}" for line in lines)
    yield ""


webhooks = [show, send]
