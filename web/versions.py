"""/v1/pipelines/UID/versions and /rollback: what a pipeline was, and going back to it."""

from typing import Any

import orjson
from aiohttp import web

from memory.catalog import Deployed
from memory.errors import NotAsExpected
from pipelines.errors import BundleRefused
from web.access import caller_of, needs
from web.answers import MOST_ITEMS, json_response, limit_of, number_of, refuse_unknown
from web.deployments import NoSuchVersion
from web.described import CONDITION, PAGED, described
from web.errors import BadRequest, NotFound, Unprocessable
from web.parts import parts_of
from web.pipelines import summary, told_of
from web.preconditions import changed_meanwhile, expected_by
from web.reading import read_json_body
from web.shapes import Page, PipelineDeployed, PipelineVersion, Rollback

routes = web.RouteTableDef()
MOST_VERSION = 10**18 - 1


@routes.get("/v1/pipelines/{uid}/versions")
@described({200: "a page of them"}, query=PAGED, gives={200: Page[PipelineVersion]})
@needs("read")
async def versions(request: web.Request) -> web.Response:
    """Every version, the newest first, also of a pipeline that was taken out of service: {items,
    next_cursor, total}."""
    refuse_unknown(request, ("limit", "cursor"))
    limit, before = limit_of(request, MOST_ITEMS), _place(request.query.get("cursor", ""))
    parts, uid = parts_of(request), request.match_info["uid"]
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
    expected, version = expected_by(request), _wanted(await read_json_body(request))
    try:
        swapped = await parts_of(request).deployments.rollback(
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


def _place(cursor: str) -> int:
    """The version before which a page begins. Raises BadRequest."""
    return number_of(cursor, MOST_VERSION) if cursor else MOST_VERSION
