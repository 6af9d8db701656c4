"""/v1/pipelines: deploying, listing, showing and removing."""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import Any

import orjson
from aiohttp import hdrs, web

from memrelay.memory.control.catalog import Deployed, Swapped
from memrelay.memory.control.precondition import NOTHING
from memrelay.memory.errors import NotAsExpected
from memrelay.memory.timestamps import as_time
from memrelay.pipelines.check import Checked, CheckedBundle, check
from memrelay.pipelines.checked import BundleRefused
from memrelay.pipelines.report import Fault
from memrelay.web.api.answers import (
    MOST_ITEMS,
    changed_meanwhile,
    is_known,
    json_response,
    limit_of,
    not_our_cursor,
    number_of,
    precondition_of,
    refuse_unknown,
)
from memrelay.web.api.deployments import NoSuchVersion
from memrelay.web.auth.access import caller_of, needs
from memrelay.web.openapi.route_docs import CONDITION, PAGED, UNCHANGED, described
from memrelay.web.openapi.shapes import (
    Page,
    Pipeline,
    PipelineDeployed,
    PipelineShown,
    PipelineVersion,
    Rollback,
)
from memrelay.web.server.errors import BadRequest, Conflict, NotFound, Unprocessable, no_pipeline
from memrelay.web.server.request_body import read_body, read_json_body
from memrelay.web.server.services import services_of

routes = web.RouteTableDef()


@routes.post("/v1/pipelines")
@described(
    {201: "it is in service", 409: "its uid is in service already", 422: "the bundle has faults"},
    body="a bundle",
    accepts=dict[str, Any],
    gives={201: PipelineDeployed},
)
@needs("deploy")
async def create(request: web.Request) -> web.Response:
    """Puts a bundle in service as a new pipeline: 201 {pipeline_uid, hash, ...}, 422 with all
    faults, 409 if it is there."""
    checked = await asyncio.to_thread(check, await read_body(request))
    bundle = _accepted(checked)
    caller_of(request).check_bundle(bundle)
    try:
        swapped = await services_of(request).deployments.deploy(bundle, NOTHING)
    except NotAsExpected as error:
        raise Conflict(
            f"pipeline {bundle.uid} is in service already; PUT /v1/pipelines/{bundle.uid} replaces it"
        ) from error
    return await told_of(request, swapped, checked.warnings)


@routes.put("/v1/pipelines/{uid}")
@described(
    {
        200: "it replaced one",
        201: "there was none",
        412: "another is in service",
        422: "the bundle has faults",
    },
    body="a bundle",
    accepts=dict[str, Any],
    headers=CONDITION | {"If-None-Match": "* alone"},
    gives={200: PipelineDeployed, 201: PipelineDeployed},
)
@needs("deploy")
async def replace(request: web.Request) -> web.Response:
    """Puts a bundle in service as the pipeline of that uid, whatever its own: 200, 201 where there
    was none, 412."""
    expected = precondition_of(request)
    checked = await asyncio.to_thread(
        check, await read_body(request), uid=request.match_info["uid"]
    )
    bundle = _accepted(checked)
    caller_of(request).check_bundle(bundle)
    try:
        swapped = await services_of(request).deployments.deploy(bundle, expected)
    except NotAsExpected as error:
        raise changed_meanwhile(error) from error
    return await told_of(request, swapped, checked.warnings)


@routes.get("/v1/pipelines")
@described({200: "a page of them"}, query=PAGED, gives={200: Page[Pipeline]})
@needs("read")
async def every(request: web.Request) -> web.Response:
    """What is in service and seen by the caller, by name: {items, next_cursor, total}."""
    refuse_unknown(request, ("limit", "cursor"))
    limit, after = limit_of(request, MOST_ITEMS), _place(request.query.get("cursor", ""))
    sees = caller_of(request).sees
    everything = [one for one in await services_of(request).catalog.active() if sees(one.uid)]
    rest = [one for one in everything if (one.name, one.uid) > after]
    items, more = rest[:limit], len(rest) > limit
    return json_response(
        {
            "items": [summary(one) for one in items],
            "next_cursor": _cursor(items[-1]) if more else None,
            "total": len(everything),
        }
    )


@routes.get("/v1/pipelines/{uid}")
@described(
    {200: "the pipeline; its ETag is the bundle's hash", 304: "it is that version still"},
    headers=UNCHANGED,
    gives={200: PipelineShown},
)
@needs("read")
async def show(request: web.Request) -> web.Response:
    """One pipeline with its bundle."""
    parts, uid = services_of(request), request.match_info["uid"]
    found = await parts.catalog.serving(uid)
    if found is not None and is_known(request, found.hash):
        return web.Response(status=304, headers={hdrs.ETAG: f'"{found.hash}"'})
    source = await parts.catalog.source(found.hash) if found is not None else None
    if found is None or source is None:
        raise no_pipeline(uid)
    return json_response(
        summary(found) | {"bundle": orjson.Fragment(source)}, ETag=f'"{found.hash}"'
    )


@routes.delete("/v1/pipelines/{uid}")
@described({204: "it is out of service", 412: "another is in service"}, headers=CONDITION)
@needs("deploy")
async def remove(request: web.Request) -> web.Response:
    """Takes a pipeline out of service; its records stay."""
    parts, uid = services_of(request), request.match_info["uid"]
    try:
        removed = await parts.deployments.remove(uid, precondition_of(request))
    except NotAsExpected as error:
        raise changed_meanwhile(error) from error
    if not removed:
        raise no_pipeline(uid)
    parts.directory.forget()
    return web.Response(status=204)


async def told_of(
    request: web.Request, swapped: Swapped, warnings: Iterable[Fault] = ()
) -> web.Response:
    """The answer to a deploy, with whether a worker serves the version already."""
    parts, deployed = services_of(request), swapped.after
    parts.directory.forget()
    served = await parts.deployments.is_served(deployed)
    told = summary(deployed) | {
        "served": served,
        "warnings": [warning.as_json() for warning in warnings],
    }
    return json_response(
        told,
        200 if swapped.before else 201,
        Location=f"/v1/pipelines/{deployed.uid}",
        ETag=f'"{deployed.hash}"',
    )


def _accepted(checked: Checked) -> CheckedBundle:
    """The bundle. Raises Unprocessable with every fault."""
    if checked.bundle is None:
        count = len(checked.faults)
        raise Unprocessable(
            f"the bundle has {count} fault{'s' * (count > 1)}; `faults` says which",
            faults=[fault.as_json() for fault in (*checked.faults, *checked.warnings)],
        )
    return checked.bundle


def summary(one: Deployed) -> dict[str, Any]:
    """A version, as it is told."""
    return {
        "pipeline_uid": one.uid,
        "name": one.name,
        "hash": one.hash,
        "version": one.version,
        "deployed_at": as_time(one.deployed_at),
    }


def _cursor(last: Deployed) -> str:
    return urlsafe_b64encode(orjson.dumps([last.name, last.uid])).decode()


def _place(cursor: str) -> tuple[str, str]:
    """(name, uid) after which a page begins. Raises BadRequest."""
    if not cursor:
        return "", ""
    try:
        name, uid = orjson.loads(urlsafe_b64decode(cursor))
        return str(name), str(uid)
    except ValueError as error:  # of base64, JSON and the pair alike
        raise not_our_cursor() from error


# /v1/pipelines/UID/versions and /rollback: what a pipeline was, and going back to it.

MOST_VERSION = 10**18 - 1


@routes.get("/v1/pipelines/{uid}/versions")
@described({200: "a page of them"}, query=PAGED, gives={200: Page[PipelineVersion]})
@needs("read")
async def versions(request: web.Request) -> web.Response:
    """Every version, the newest first, also of a pipeline that was taken out of service: {items,
    next_cursor, total}."""
    refuse_unknown(request, ("limit", "cursor"))
    limit, before = limit_of(request, MOST_ITEMS), _version_place(request.query.get("cursor", ""))
    parts, uid = services_of(request), request.match_info["uid"]
    everything = await parts.catalog.versions(uid)
    if not everything:
        raise NotFound(
            f"no pipeline {uid[:100]!r} was ever in service; GET /v1/pipelines lists those that are"
        )
    active = await parts.catalog.serving(uid)
    rest = [one for one in everything if one.version < before]
    items, more = rest[:limit], len(rest) > limit
    return json_response(
        {
            "items": [_version(one, active) for one in items],
            "next_cursor": str(items[-1].version) if more else None,
            "total": len(everything),
        }
    )


@routes.post("/v1/pipelines/{uid}/rollback")
@described(
    {
        200: "it replaced one",
        201: "there was none",
        404: "no such version",
        412: "another is in service",
        422: "this program does not accept the bundle any more",
    },
    body="`version`, or nothing for the one before",
    accepts=Rollback,
    headers=CONDITION,
    gives={200: PipelineDeployed, 201: PipelineDeployed},
)
@needs("deploy")
async def rollback(request: web.Request) -> web.Response:
    """Puts {"version": n} in service again, as a new version; without one, the last with another
    bundle. 200, 404, 412, 422."""
    expected, version = precondition_of(request), _wanted(await read_json_body(request))
    try:
        swapped = await services_of(request).deployments.rollback(
            request.match_info["uid"], version, expected, allow=caller_of(request).check_bundle
        )
    except NoSuchVersion as error:
        raise NotFound(str(error)) from error
    except NotAsExpected as error:
        raise changed_meanwhile(error) from error
    except BundleRefused as error:
        raise Unprocessable(
            "this program does not accept the bundle of that version any more; `faults` says why",
            faults=[fault.as_json() for fault in error.faults],
        ) from error
    return await told_of(request, swapped)


def _version(one: Deployed, active: Deployed | None) -> dict[str, Any]:
    return summary(one) | {"active": one == active}


def _wanted(body: bytes) -> int | None:
    """The version that a body names. Raises BadRequest."""
    try:
        given = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is no JSON: {error.msg}") from error
    if not isinstance(given, dict) or given.keys() - {"version"}:
        raise BadRequest(
            'the body is {"version": NUMBER}, or nothing for the version before the active one'
        )
    version = given.get("version")
    if version is not None and (
        isinstance(version, bool) or not isinstance(version, int) or version < 1
    ):
        raise BadRequest("`version` is a number from 1 on; GET .../versions lists them")
    return version


def _version_place(cursor: str) -> int:
    """The version before which a page begins. Raises BadRequest."""
    return number_of(cursor, MOST_VERSION) if cursor else MOST_VERSION
