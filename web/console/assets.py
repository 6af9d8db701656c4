"""The files that pages are made with: read once, and kept by browsers until they change."""

from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from aiohttp import hdrs, web

from web.errors import NotFound

FOLDER = Path(__file__).resolve().parent / "static"
TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
FOR_EVER = "public, max-age=31536000, immutable"


class Asset(NamedTuple):
    """One file."""

    body: bytes
    content_type: str
    digest: str  # the beginning of its sha256, in hex


def _read(file: Path) -> Asset:
    body = file.read_bytes()
    return Asset(body, TYPES[file.suffix], sha256(body).hexdigest()[:16])


ASSETS = {file.name: _read(file) for file in sorted(FOLDER.iterdir()) if file.suffix in TYPES}


def asset_url(name: str) -> str:
    """Where a page finds a file: another address for other contents."""
    return f"/static/{name}?v={ASSETS[name].digest}"


def asset_response(request: web.Request, name: str) -> web.Response:
    """A file; 304 where the browser has it. Raises NotFound."""
    asset = ASSETS.get(name)
    if asset is None:
        raise NotFound(f"there is no file {name[:100]!r} among the page's files")
    named_by_digest = request.query.get("v") == asset.digest
    headers = {
        hdrs.ETAG: f'"{asset.digest}"',
        hdrs.CACHE_CONTROL: FOR_EVER if named_by_digest else "no-cache",
        "X-Content-Type-Options": "nosniff",
    }
    if any(tag.value == asset.digest for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(
        body=asset.body, content_type=asset.content_type, charset="utf-8", headers=headers
    )
