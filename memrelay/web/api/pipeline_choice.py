"""The pipeline of a request to a path without a uid."""

from collections.abc import Sequence

from aiohttp import web

from memrelay.web.auth.access import get_caller
from memrelay.web.server.error_dialects import PIPELINE_PREFIX, get_error_dialect
from memrelay.web.server.errors import BadRequest
from memrelay.web.server.services import get_services

# Uids that an error lists.
MAX_LISTED = 20


async def find_pipeline(request: web.Request) -> str:
    """Return the uid of the request's pipeline, which is active and visible to the caller.

    The first that is given decides: the prefix /p/{uid}, the parameter or header of the route's
    dialect, the only pipeline of the credential, the only active pipeline that the caller sees.
    Raises BadRequest: none of them is given. NotFound: the pipeline is unknown, or the caller may
    not see it.
    """
    caller = get_caller(request)
    uid = _get_named(request) or ("" if caller.sees_all else _only(caller.pipelines))
    directory = get_services(request).directory
    if not uid:
        pipelines = await directory.list_pipelines()
        seen = [one.deployed.uid for one in pipelines if caller.sees(one.deployed.uid)]
        uid = _only(seen)
        if not uid:
            raise BadRequest(
                "the request names no pipeline, and there is not exactly one to choose; begin the "
                f"path with {PIPELINE_PREFIX}{_describe_parameter(request)}. {_describe_uids(seen)}"
            )
    caller.check_pipeline(uid)
    await directory.find(uid)
    return uid


def _get_named(request: web.Request) -> str:
    """Return the uid that the request names, or ""."""
    dialect = get_error_dialect(request.match_info.handler)
    uid = request.match_info.get("uid", "")
    if not uid and dialect and dialect.pipeline_parameter:
        uid = request.query.get(dialect.pipeline_parameter, "")
    if not uid and dialect and dialect.pipeline_header:
        uid = request.headers.get(dialect.pipeline_header, "")
    return uid


def _only(uids: "frozenset[str] | list[str]") -> str:
    return next(iter(uids)) if len(uids) == 1 else ""


def _describe_uids(uids: Sequence[str]) -> str:
    """Return the uids that the caller sees."""
    if not uids:
        return "No pipeline that you may use is active"
    more = f" and {len(uids) - MAX_LISTED} more" if len(uids) > MAX_LISTED else ""
    return f"The uids are {', '.join(uids[:MAX_LISTED])}{more}"


def _describe_parameter(request: web.Request) -> str:
    dialect = get_error_dialect(request.match_info.handler)
    if dialect is None or not dialect.pipeline_parameter:
        return ""
    return f", or send ?{dialect.pipeline_parameter}=UID"
