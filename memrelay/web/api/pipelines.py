"""/v1/pipelines: deploy, list, show, and remove pipelines, list versions, and roll back."""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import partial
from typing import Any

import orjson
from aiohttp import hdrs, web

from memrelay.memory.control.catalog import Deployed, DeployResult
from memrelay.memory.control.precondition import NOTHING, Precondition
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import PreconditionNotMet
from memrelay.pipelines.asyncapi import make_document
from memrelay.pipelines.check import Checked, CheckedBundle, check
from memrelay.pipelines.checked import BundleRefused
from memrelay.pipelines.json_text import find_lines
from memrelay.pipelines.report import Fault
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.web.api.answers import (
    MAX_ITEMS,
    invalid_cursor,
    is_unchanged,
    json_response,
    page_response,
    parse_limit,
    parse_numeric_cursor,
    parse_precondition,
    precondition_failed,
    refuse_unknown,
)
from memrelay.web.api.deployments import NoSuchVersion
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.openapi.route_docs import (
    IF_MATCH_HEADER,
    IF_NONE_MATCH_HEADER,
    NUMERIC_CURSOR_SCHEMA,
    PAGE_QUERY,
    documented,
)
from memrelay.web.openapi.shapes import (
    BundleCheck,
    NewBundle,
    Page,
    Pipeline,
    PipelineDeployed,
    PipelineDetail,
    PipelineVersion,
    Rollback,
)
from memrelay.web.server.errors import BadRequest, Conflict, NotFound, Unprocessable, no_pipeline
from memrelay.web.server.options import OPTIONS, find_public_url
from memrelay.web.server.request_body import read_body, read_json_body
from memrelay.web.services import get_services

routes = web.RouteTableDef()
MAX_VERSION = 10**18 - 1
# Keys of an agent that refer to the secrets of its webhook.
SECRET_FIELDS = ("wf_webhook_token", "wf_webhook_secret", "wf_webhook_verify")


@routes.post("/v1/pipelines")
@documented(
    {
        201: "The pipeline is active.",
        409: "A pipeline with this uid is already active.",
        422: "The bundle has faults.",
    },
    body="A bundle.",
    body_schema=NewBundle,
    schemas={201: PipelineDeployed},
)
@requires("deploy")
async def create(request: web.Request) -> web.Response:
    """Deploy a bundle as a new pipeline.

    Returns 201 {pipeline_uid, hash, ...}, or 422 with all faults of the bundle.
    """
    try:
        return await _deploy(request, await _check_body(request), NOTHING)
    except PreconditionNotMet as error:
        raise Conflict(
            f"pipeline {error.uid} is already active; replace it with PUT /v1/pipelines/{error.uid}"
        ) from error


@routes.put("/v1/pipelines/{uid}")
@documented(
    {
        200: "The bundle replaced the active one.",
        201: "No bundle was active before.",
        412: "Another version is active.",
        422: "The bundle has faults.",
    },
    body="A bundle.",
    body_schema=NewBundle,
    headers=IF_MATCH_HEADER
    | {"If-None-Match": "Only *: deploy only if the pipeline is not active."},
    schemas={200: PipelineDeployed, 201: PipelineDeployed},
)
@requires("deploy")
async def replace(request: web.Request) -> web.Response:
    """Deploy a bundle under the uid in the path. The uid in the bundle is ignored."""
    expected = parse_precondition(request)
    checked = await _check_body(request, request.match_info["uid"])
    try:
        return await _deploy(request, checked, expected)
    except PreconditionNotMet as error:
        raise precondition_failed(error) from error


async def _deploy(request: web.Request, checked: Checked, expected: Precondition) -> web.Response:
    """Deploy a bundle that the caller may deploy. Raises Problem and PreconditionNotMet."""
    bundle, services = get_accepted(checked), get_services(request)
    get_caller(request).check_bundle(bundle, services.secrets)
    try:
        result = await services.deployments.deploy(bundle, expected)
    except BundleRefused as error:
        raise _refused("this cluster cannot serve the bundle", error) from error
    return await _deployed_response(request, result, checked)


@routes.post("/v1/pipelines/{uid}/check")
@documented(
    {200: "The faults and warnings, each with its line in the body."},
    body="A bundle, also one that is not valid JSON.",
    body_schema=NewBundle,
    schemas={200: BundleCheck},
)
@requires("deploy")
async def check_only(request: web.Request) -> web.Response:
    """Check a bundle as a deploy under the uid in the path does. Nothing is stored."""
    body, services, caller = await read_body(request), get_services(request), get_caller(request)
    async with services.checks.turn(caller.key):
        checked = await asyncio.to_thread(
            check,
            body,
            uid=request.match_info["uid"],
            secrets=services.secrets,
            public_url=services.options.public_url,
        )
        found = (*checked.faults, *checked.warnings, *_warn_of_unset(checked, services.secrets))
        lines = await asyncio.to_thread(find_lines, body, [fault.pointer for fault in found])
    if checked.bundle is not None:
        caller.check_bundle(checked.bundle, services.secrets)
    faults = [fault.as_json() | {"line": lines[fault.pointer]} for fault in found]
    return json_response({"valid": checked.bundle is not None, "faults": faults})


def _warn_of_unset(checked: Checked, secrets: SecretResolver) -> list[Fault]:
    """Return a warning for each variable that this server lacks, if there are no other faults.

    This process checks the signatures of webhooks.
    """
    if checked.bundle is None:
        return []
    agents = orjson.loads(checked.bundle.source)["agents"]
    return [
        Fault(
            f"/agents/{at}/{field}",
            f"the server has no environment variable {reference.removeprefix('env:')[:100]}, so "
            "each webhook to this agent is refused",
            "set the variable and start the server again; or store the secret in a file of the "
            "folder secrets.folder and write file:NAME",
            "warning",
        )
        for at, agent in enumerate(agents)
        for field in SECRET_FIELDS
        for reference in _list_texts(agent.get(field))
        if secrets.is_unset(reference)
    ]


def _list_texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, str)]


@routes.get("/v1/pipelines")
@documented({200: "A page of pipelines."}, query=PAGE_QUERY, schemas={200: Page[Pipeline]})
@requires("read")
async def list_all(request: web.Request) -> web.Response:
    """List the active pipelines that the caller may see, by name.

    Returns {items, next_cursor, total}.
    """
    refuse_unknown(request, ("limit", "cursor"))
    limit, after = parse_limit(request, MAX_ITEMS), _parse_cursor(request.query.get("cursor", ""))
    sees = get_caller(request).sees
    visible = [one for one in await get_services(request).catalog.active() if sees(one.uid)]
    rest = [one for one in visible if (one.name, one.uid) > after]
    next_cursor = _make_cursor(rest[limit - 1]) if len(rest) > limit else None
    return page_response([_summarize(one) for one in rest[:limit]], next_cursor, len(visible))


@routes.get("/v1/pipelines/{uid}")
@documented(
    {
        200: "The pipeline. Its ETag is the hash of the bundle.",
        304: "The client already has this version.",
    },
    headers=IF_NONE_MATCH_HEADER,
    schemas={200: PipelineDetail},
)
@requires("read")
async def show(request: web.Request) -> web.Response:
    """Show a pipeline with its bundle."""
    catalog, uid = get_services(request).catalog, request.match_info["uid"]
    found = await catalog.serving(uid)
    if found is not None and is_unchanged(request, found.hash):
        return web.Response(status=304, headers={hdrs.ETAG: f'"{found.hash}"'})
    source = await catalog.source(found.hash) if found is not None else None
    if found is None or source is None:
        raise no_pipeline(uid)
    return json_response(
        _summarize(found) | {"bundle": orjson.Fragment(source)}, ETag=f'"{found.hash}"'
    )


@routes.get("/v1/pipelines/{uid}/asyncapi.json")
@documented(
    {200: "The AsyncAPI 3.1 document."}, schemas={200: dict[str, Any]}, ident="pipelines.asyncapi"
)
@requires("read")
async def asyncapi(request: web.Request) -> web.Response:
    """Describe a pipeline in AsyncAPI: its channels, webhooks, agents and messages."""
    services = get_services(request)
    served = await services.directory.find(request.match_info["uid"])
    bus = str(services.line.address)
    return json_response(make_document(served.bundle, bus, find_public_url(request)))


@routes.delete("/v1/pipelines/{uid}")
@documented(
    {204: "The pipeline is no longer active.", 412: "Another version is active."},
    headers=IF_MATCH_HEADER,
)
@requires("deploy")
async def remove(request: web.Request) -> web.Response:
    """Deactivate a pipeline. Its records remain."""
    services, uid = get_services(request), request.match_info["uid"]
    try:
        removed = await services.deployments.remove(uid, parse_precondition(request))
    except PreconditionNotMet as error:
        raise precondition_failed(error) from error
    if not removed:
        raise no_pipeline(uid)
    services.directory.invalidate()
    return web.Response(status=204)


@routes.get("/v1/pipelines/{uid}/versions")
@documented(
    {200: "A page of versions."},
    query=PAGE_QUERY,
    query_schemas={"cursor": NUMERIC_CURSOR_SCHEMA},
    schemas={200: Page[PipelineVersion]},
)
@requires("read")
async def versions(request: web.Request) -> web.Response:
    """List all versions of a pipeline, newest first, even if it is no longer active.

    Returns {items, next_cursor, total}.
    """
    refuse_unknown(request, ("limit", "cursor"))
    limit = parse_limit(request, MAX_ITEMS)
    before = _parse_version_cursor(request.query.get("cursor", ""))
    catalog, uid = get_services(request).catalog, request.match_info["uid"]
    every = await catalog.versions(uid)
    if not every:
        raise NotFound(
            f"no pipeline {uid[:100]!r} was ever deployed; GET /v1/pipelines lists active pipelines"
        )
    active = await catalog.serving(uid)
    rest = [one for one in every if one.version < before]
    items = [_summarize(one) | {"active": one == active} for one in rest[:limit]]
    next_cursor = str(rest[limit - 1].version) if len(rest) > limit else None
    return page_response(items, next_cursor, len(every))


@routes.post("/v1/pipelines/{uid}/rollback")
@documented(
    {
        200: "The version replaced the active one.",
        201: "No version was active before.",
        404: "The version does not exist.",
        412: "Another version is active.",
        422: "This release does not accept the bundle.",
    },
    body="`version`, or empty for the previous version.",
    body_schema=Rollback,
    needs_body=False,
    headers=IF_MATCH_HEADER,
    schemas={200: PipelineDeployed, 201: PipelineDeployed},
)
@requires("deploy")
async def rollback(request: web.Request) -> web.Response:
    """Deploy an earlier version again, as a new version.

    Without `version`, this takes the latest version with another bundle.
    """
    expected = parse_precondition(request)
    version = _parse_version(await read_json_body(request))
    services, caller = get_services(request), get_caller(request)
    allow = partial(caller.check_bundle, secrets=services.secrets)
    try:
        async with services.checks.turn(caller.key):
            result = await services.deployments.rollback(
                request.match_info["uid"], version, expected, allow=allow
            )
    except NoSuchVersion as error:
        raise NotFound(str(error)) from error
    except PreconditionNotMet as error:
        raise precondition_failed(error) from error
    except BundleRefused as error:
        reason = "this release does not accept the bundle of that version"
        raise _refused(reason, error) from error
    return await _deployed_response(request, result)


def _refused(reason: str, error: BundleRefused) -> Unprocessable:
    faults = [fault.as_json() for fault in error.faults]
    return Unprocessable(f"{reason}; see `faults`", faults=faults)


async def _deployed_response(
    request: web.Request, result: DeployResult, checked: Checked | None = None
) -> web.Response:
    """Return the response to a deploy, with whether a worker serves the new version."""
    services, deployed = get_services(request), result.after
    if checked is not None and checked.bundle is not None:
        services.directory.remember(checked.bundle)
    services.directory.invalidate()
    served = await services.deployments.is_served(deployed)
    body = _summarize(deployed) | {
        "served": served,
        "warnings": [warning.as_json() for warning in (checked.warnings if checked else ())],
    }
    return json_response(
        body,
        200 if result.before else 201,
        Location=f"{request.app[OPTIONS].base_path}/v1/pipelines/{deployed.uid}",
        ETag=f'"{deployed.hash}"',
    )


async def _check_body(request: web.Request, uid: str | None = None) -> Checked:
    """Check the bundle in the body. Raises Unavailable if too many checks wait."""
    body, services = await read_body(request), get_services(request)
    async with services.checks.turn(get_caller(request).key):
        return await asyncio.to_thread(
            check,
            body,
            uid=uid,
            secrets=services.secrets,
            timezone=services.options.timezone,
            public_url=services.options.public_url,
        )


def get_accepted(checked: Checked) -> CheckedBundle:
    """Return the bundle. Raises Unprocessable with every fault."""
    if checked.bundle is None:
        count = len(checked.faults)
        raise Unprocessable(
            f"the bundle has {count} fault{'s' * (count > 1)}; see `faults`",
            faults=[fault.as_json() for fault in (*checked.faults, *checked.warnings)],
        )
    return checked.bundle


def _summarize(one: Deployed) -> dict[str, Any]:
    return {
        "pipeline_uid": one.uid,
        "name": one.name,
        "hash": one.hash,
        "version": one.version,
        "deployed_at": format_time(one.deployed_at),
    }


def _make_cursor(last: Deployed) -> str:
    return urlsafe_b64encode(orjson.dumps([last.name, last.uid])).decode()


def _parse_cursor(cursor: str) -> tuple[str, str]:
    """Return the (name, uid) after which a page begins. Raises BadRequest."""
    if not cursor:
        return "", ""
    try:
        value = orjson.loads(urlsafe_b64decode(cursor))
    except ValueError as error:
        raise invalid_cursor() from error
    match value:
        case [str(name), str(uid)]:
            return name, uid
    raise invalid_cursor()


def _parse_version(body: bytes) -> int | None:
    """Return the version in a rollback body, or None. Raises BadRequest."""
    try:
        given = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not valid JSON: {error.msg}") from error
    if not isinstance(given, dict) or given.keys() - {"version"}:
        raise BadRequest('the body must be {"version": NUMBER}, or empty for the previous version')
    version = given.get("version")
    if version is None:
        return None
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise BadRequest("`version` must be a number from 1; GET .../versions lists all versions")
    return version


def _parse_version_cursor(cursor: str) -> int:
    """Return the version before which a page begins. Raises BadRequest."""
    return parse_numeric_cursor(cursor, MAX_VERSION) if cursor else MAX_VERSION
