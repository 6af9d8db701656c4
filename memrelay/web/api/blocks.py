"""What an editor of pipelines needs: the blocks, the schema of a bundle, templates, and a tester of
patterns.
"""

import asyncio
import hashlib
from functools import cache
from typing import Any

import orjson
from aiohttp import hdrs, web

from memrelay.pipelines.block_catalog import list_catalog
from memrelay.pipelines.pattern_tester import KINDS, MAX_PATTERN, MAX_TEXT, try_pattern
from memrelay.pipelines.schema import rendered
from memrelay.pipelines.templates import TEMPLATES
from memrelay.web.api.answers import is_unchanged, json_response
from memrelay.web.api.try_process import TRIES
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.openapi.route_docs import IF_NONE_MATCH_HEADER, documented
from memrelay.web.openapi.shapes import (
    BlockCatalog,
    PatternTested,
    PatternToTest,
    PipelineTemplates,
)
from memrelay.web.server.errors import BadRequest, Unprocessable
from memrelay.web.server.request_body import read_json_body
from memrelay.web.services import get_services

routes = web.RouteTableDef()
FIELDS = ("kind", "pattern", "text", "flags")


@routes.get("/v1/blocks")
@documented({200: "All blocks, those of Memrelay first."}, schemas={200: BlockCatalog})
@requires("read")
async def list_blocks(request: web.Request) -> web.Response:
    """List the blocks that bundles may name, with the schema of their arguments."""
    async with get_services(request).checks.turn(get_caller(request).key):
        found = await asyncio.to_thread(list_catalog)
    if "deploy" in get_caller(request).scopes:
        request.app[TRIES].warm()  # the caller is an editor
    return json_response({"items": [one._asdict() for one in found]})


@routes.get("/v1/bundle.schema.json")
@documented(
    {200: "A JSON Schema, draft 2020-12.", 304: "The client already has it."},
    headers=IF_NONE_MATCH_HEADER,
    schemas={200: dict[str, Any]},
)
@requires("read")
async def bundle_schema(request: web.Request) -> web.Response:
    """Return the JSON Schema of a bundle, for editors."""
    async with get_services(request).checks.turn(get_caller(request).key):
        schema, etag = await asyncio.to_thread(_read_schema)
    headers = {hdrs.ETAG: f'"{etag}"'}
    if is_unchanged(request, etag):
        return web.Response(status=304, headers=headers)
    return web.Response(body=schema, content_type="application/json", headers=headers)


@cache
def _read_schema() -> tuple[bytes, str]:
    schema = rendered()
    return schema, hashlib.sha256(schema).hexdigest()


@routes.get("/v1/pipeline-templates")
@documented({200: "All templates."}, schemas={200: PipelineTemplates})
@requires("read")
async def list_templates(request: web.Request) -> web.Response:
    """List the templates for new pipelines, each with its bundle."""
    items = [
        {"name": one.name, "title": one.title, "summary": one.summary, "bundle": one.bundle}
        for one in TEMPLATES
    ]
    return json_response({"items": items})


@routes.post("/v1/patterns/test")
@documented(
    {200: "What the pattern finds, or what is wrong with it.", 422: "A field is invalid."},
    body="The pattern and the text.",
    body_schema=PatternToTest,
    schemas={200: PatternTested},
)
@requires("read")
async def test_pattern(request: web.Request) -> web.Response:
    """Try a pattern, a JMESPath expression or a template on a text, as blocks use them."""
    kind, pattern, text, flags = _parse_fields(await read_json_body(request))
    async with get_services(request).checks.turn(get_caller(request).key):
        tried = await asyncio.to_thread(try_pattern, kind, pattern, text, flags)
    return json_response(tried._asdict())


def _parse_fields(body: bytes) -> tuple[str, str, str, str]:
    """Return the kind, the pattern, the text and the flags. Raises BadRequest, Unprocessable."""
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not valid JSON: {error.msg}") from error
    if not isinstance(given, dict):
        raise Unprocessable("the body must be an object with kind, pattern and text")
    fields = {"flags": "", **given}
    for name in (*FIELDS, *fields):
        if name not in FIELDS:
            raise Unprocessable(f"unknown field {name[:50]!r}; known are {', '.join(FIELDS)}")
        if not isinstance(fields.get(name), str):
            raise Unprocessable(f"`{name}` must be a text")
    kind, pattern, text, flags = (fields[name] for name in FIELDS)
    if kind not in KINDS:
        raise Unprocessable(f"`kind` must be one of {', '.join(KINDS)}")
    if len(pattern) > MAX_PATTERN:
        raise Unprocessable(f"`pattern` has {len(pattern)} characters; at most {MAX_PATTERN}")
    if len(text.encode()) > MAX_TEXT:
        raise Unprocessable(f"`text` has more than {MAX_TEXT >> 10} KiB; shorten it")
    return kind, pattern, text, flags
