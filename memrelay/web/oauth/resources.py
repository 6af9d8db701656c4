"""The resources that tokens are for: `/mcp`, and `/mcp/UID` with its toolsets."""

import re
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

PATH = re.compile(r"/mcp(?:/(?P<uid>[A-Za-z0-9_-]{1,64})(?:/(?:graph|files))?)?")
DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Resource(NamedTuple):
    """A resource. `path` lies below the base path. `uid` is "" for `/mcp`: the user chooses."""

    path: str
    uid: str


def find_resource(url: str, issuer: str) -> Resource | None:
    """Return the resource of a URL, None if it is none of this server.

    The tokens for a toolset of a pipeline are those for the pipeline.
    """
    try:
        given, own = urlsplit(url), urlsplit(issuer)
        same_origin = _normalize_origin(given) == _normalize_origin(own)
    except ValueError:
        return None
    if not same_origin or given.query or given.fragment or "#" in url:
        return None
    if not given.path.startswith(own.path):
        return None
    match = PATH.fullmatch(given.path.removeprefix(own.path).removesuffix("/"))
    if match is None:
        return None
    uid = match["uid"] or ""
    return Resource(f"/mcp/{uid}" if uid else "/mcp", uid)


def _normalize_origin(parts: SplitResult) -> tuple[str, str]:
    place = parts.netloc.lower().removesuffix(DEFAULT_PORTS.get(parts.scheme, " "))
    return parts.scheme, place
