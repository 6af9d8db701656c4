"""The page "Versions": the bundle of a pipeline, its versions, and what changed between two."""

import asyncio
from typing import Any, NamedTuple

import orjson
from aiohttp import web

from memrelay.memory.control.catalog import Deployed
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.records.word_diff import WordDiff, compare_words
from memrelay.web.api.directory import Served
from memrelay.web.console.format import clip_bytes
from memrelay.web.console.frame import Page, PageRoutes
from memrelay.web.server.errors import BadRequest, NotFound
from memrelay.web.services import get_services

PAGE = Page("Versions", "/pipelines/{uid}/bundle", menu="pipeline", order=50, parent="Pipelines")
QUERY = {
    "before": "Show the versions before this number.",
    "from": "The number of the version to compare, by default the one before `to`.",
    "to": "The number of the version to compare it with, by default the active one.",
}
ERRORS = {400: "A parameter is invalid.", 404: "There is no such pipeline or version."}
PAGE_SIZE = 50
# Bytes in HTML of a bundle that is shown and edited on the page.
MAX_SHOWN_BYTES = 80_000
routes = PageRoutes(PAGE, errors=ERRORS, query=QUERY)


class Comparison(NamedTuple):
    """Two versions. `words` is None if their bundles are too long to be compared."""

    old: int
    new: int
    words: WordDiff | None


@routes.pipeline_page("bundle.html")
async def bundle(request: web.Request, served: Served) -> dict[str, Any]:
    """Show the active bundle, the versions, and the changes between two of them."""
    active = served.deployed
    shown = clip_bytes(await read_bundle_text(request, active), MAX_SHOWN_BYTES)
    values = await _list_versions(request, served)
    return values | {
        "text": shown.text,
        "is_long": shown.hidden > 0,
        "comparison": await _compare(request, values["versions"], active),
    }


@routes.part("/rows", "fragments/bundle_rows.html")
async def bundle_rows(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the list of versions."""
    return await _list_versions(request, served)


async def _list_versions(request: web.Request, served: Served) -> dict[str, Any]:
    """Return the template values of the list."""
    versions = await get_services(request).catalog.versions(served.deployed.uid)
    before = parse_number(request, "before", 0)
    rest = [one for one in versions if not before or one.version < before]
    return {
        "versions": versions,
        "active": served.deployed,
        "before": before,
        "rows": [(one, format_time(one.deployed_at)) for one in rest[:PAGE_SIZE]],
        "older": rest[PAGE_SIZE - 1].version if len(rest) > PAGE_SIZE else None,
    }


async def _compare(
    request: web.Request, versions: list[Deployed], active: Deployed
) -> Comparison | None:
    """Return the changes between the two versions in the address; None if there is only one.

    Raises BadRequest, or NotFound for an unknown version.
    """
    if len(versions) < 2:
        return None
    to = parse_number(request, "to", active.version)
    earlier = (one.version for one in versions if one.version < to)
    since = parse_number(request, "from", next(earlier, to))
    by_number = {one.version: one for one in versions}
    for number in (since, to):
        if number not in by_number:
            raise NotFound(f"This pipeline has no version {number}.")
    old, new = [await read_bundle_text(request, by_number[number]) for number in (since, to)]
    words = await asyncio.to_thread(compare_words, old, new)
    return Comparison(since, to, words)


async def read_bundle_text(request: web.Request, version: Deployed) -> str:
    """Return the bundle of a version as indented JSON."""
    source = await get_services(request).catalog.source(version.hash) or b"{}"
    return orjson.dumps(orjson.loads(source), option=orjson.OPT_INDENT_2).decode()


def parse_number(request: web.Request, name: str, default: int) -> int:
    """Return the number of a version in the address. Raises BadRequest."""
    text = request.query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise BadRequest(f"The parameter {name!r} must be the number of a version.")
    return int(text)
