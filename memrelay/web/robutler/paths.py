"""Robutler's paths, and the key in the path of an entry."""

from urllib.parse import unquote

from aiohttp import web

from memrelay.web.server.error_dialects import PIPELINE_PREFIX
from memrelay.web.server.errors import BadRequest

MEMORY = "/api/storage/memory"
# A key may contain slashes and line breaks.
ENTRY = MEMORY + "/{key:(?s:.+)}"
# A last slash belongs to the key.
ENTRY_ENDS = ("",)
KV = "/api/kv"
TOOL = "/api/tools/memory"


def read_key(request: web.Request) -> str:
    """Return the key in the path, decoded once: `a%2Fb` is `a/b`, and `%2E%2E` is `..`.

    aiohttp's own decoding cannot tell an invalid escape from a literal one. Raises BadRequest.
    """
    prefix = PIPELINE_PREFIX if "uid" in request.match_info else ""
    slashes = (prefix + MEMORY).count("/") + 1
    raw = request.rel_url.raw_path.split("/", slashes)[slashes]
    try:
        return unquote(raw, errors="strict")
    except UnicodeDecodeError as error:
        raise BadRequest("the key in the path is not UTF-8; encode it with percent signs") from (
            error
        )
