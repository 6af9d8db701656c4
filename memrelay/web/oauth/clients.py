"""The clients of OAuth: registered ones, and ones with a metadata document at their id's URL.

The name and the address of a client are not verified. Its redirect URIs count: a code goes only to
one of them.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

import orjson

from memrelay.guarded_http.client import (
    AnswerTooLong,
    GuardedClient,
    OutgoingRefused,
    Request,
    RequestFailed,
)
from memrelay.guarded_http.rules import OutgoingRules
from memrelay.memory.control.oauth import CLIENT_PREFIX, Client, OAuthRows
from memrelay.web.server.errors import BadRequest

MAX_REDIRECTS, MAX_URL, MAX_NAME = 10, 1_000, 60
MAX_DOCUMENT_BYTES, FETCH_TIMEOUT_S = 65_536, 5.0
# How long a document and a failure are remembered, and how many.
DOCUMENT_S, FAILURE_S, MAX_KEPT = 600.0, 30.0, 100
LOOPBACK = ("127.0.0.1", "::1", "localhost")
AUTHORITY = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
# Schemes by which a browser runs or reads something itself, or by which the system connects to the
# host in the URI. Other ones belong to an application.
NOT_APPLICATIONS = frozenset(
    {
        *("about", "blob", "chrome", "data", "file", "filesystem", "ftp", "intent", "javascript"),
        *("mailto", "resource", "tel", "vbscript", "view-source", "ws", "wss"),
        *("afp", "dav", "davs", "feed", "ftps", "gopher", "imap", "imaps", "irc", "ircs", "ldap"),
        *("ldaps", "mms", "news", "nfs", "nntp", "rdp", "rtsp", "sftp", "smb", "ssh", "telnet"),
        *("tftp", "vnc", "webcal", "webcals"),
    }
)
CONFIDENTIAL = frozenset({"client_secret_basic", "client_secret_post", "client_secret_jwt"})


class InvalidClient(ValueError):
    """The registration or the document of a client is invalid. `code` is the error of RFC 7591."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def read_metadata(given: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the name and the redirect URIs in the metadata of a client. Raises InvalidClient.

    The name is "" without one. Other metadata does not matter here.
    """
    uris = given.get("redirect_uris")
    if not isinstance(uris, list) or not 1 <= len(uris) <= MAX_REDIRECTS:
        raise InvalidClient(
            "invalid_redirect_uri", f"redirect_uris must be a list of 1 to {MAX_REDIRECTS} URIs"
        )
    for uri in uris:
        check_redirect(uri)
    name = given.get("client_name", "")
    if not isinstance(name, str):
        raise InvalidClient("invalid_client_metadata", "client_name must be a string")
    return clean_name(name), tuple(uris)


def clean_name(name: str) -> str:
    """Return a name for display: one line of at most 60 printable characters."""
    return "".join(filter(str.isprintable, " ".join(name[:1_000].split())))[:MAX_NAME].strip()


def check_redirect(uri: object) -> None:
    """Check that a code may be sent to a URI, as far as its form tells. Raises InvalidClient.

    It is https, or http on this machine, or the scheme of an application, such as `cursor://`.
    """
    fault = ""
    if not isinstance(uri, str) or not 1 <= len(uri) <= MAX_URL:
        fault = f"must be a string of at most {MAX_URL} characters"
    elif re.search(r"[^!-~]|[\\\"<>^`{|}]", uri):
        fault = "must have only the characters of URIs"
    else:
        fault = _find_redirect_fault(uri)
    if fault:
        raise InvalidClient("invalid_redirect_uri", f"a redirect URI {fault}: {str(uri)[:100]!r}")


def _find_redirect_fault(uri: str) -> str:
    try:
        parts = urlsplit(uri)
        host = parts.hostname or ""
    except ValueError:
        return "is malformed"
    if "#" in uri:
        return "must have no fragment"
    if parts.scheme in NOT_APPLICATIONS or "://" not in uri:
        return "must be https, http on this machine, or of an application, such as cursor://"
    if not AUTHORITY.fullmatch(parts.netloc):
        return "must name a host, and no user"
    if parts.scheme == "http" and host not in LOOPBACK:
        return "must be https, unless its host is 127.0.0.1, [::1] or localhost"
    return ""


def has_redirect(client: Client, uri: str) -> bool:
    """Return whether a client has a redirect URI, letter for letter.

    Only the port may differ if the host is this machine (RFC 8252, section 7.3).
    """
    if uri in client.redirect_uris:
        return True
    try:
        check_redirect(uri)
    except InvalidClient:
        return False
    return _is_loopback(urlsplit(uri)) and _without_port(uri) in {
        _without_port(one) for one in client.redirect_uris
    }


def _is_loopback(parts: SplitResult) -> bool:
    return parts.scheme == "http" and parts.hostname in LOOPBACK


def _without_port(uri: str) -> str:
    parts = urlsplit(uri)
    host = parts.netloc.rpartition(":")[0] if re.search(r":\d+$", parts.netloc) else parts.netloc
    return parts._replace(netloc=host).geturl()


class _Kept(NamedTuple):
    until: float
    client: Client | None
    fault: str


class Clients:
    """Finds clients. `rules` are for the requests of documents. `clock` returns seconds."""

    def __init__(
        self, rows: OAuthRows, rules: OutgoingRules, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rows, self._rules, self._clock = rows, rules, clock
        self._kept: dict[str, _Kept] = {}

    async def find(self, ident: str, now_ms: int) -> Client:
        """Return a client. Raises BadRequest: there is none, or its document is not usable."""
        if ident.startswith(CLIENT_PREFIX):
            client = await self._rows.find_client(ident, now_ms)
            if client is None:
                raise BadRequest(
                    "the client is not registered, or its registration has ended; remove the "
                    "connection in the client, and add it again"
                )
            return client
        if fault := find_url_fault(ident):
            raise BadRequest(f"client_id {fault}")
        kept = self._kept.get(ident)
        if kept is None or kept.until <= self._clock():
            kept = await self._read(ident)
            self._keep(ident, kept)
        if kept.client is None:
            raise BadRequest(f"the metadata document of the client is not usable: {kept.fault}")
        return kept.client

    def _keep(self, url: str, kept: _Kept) -> None:
        self._kept.pop(url, None)
        self._kept[url] = kept
        if len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]

    async def _read(self, url: str) -> _Kept:
        try:
            client = parse_document(url, await self._fetch(url))
        except (OutgoingRefused, RequestFailed, AnswerTooLong, ValueError) as error:
            return _Kept(self._clock() + FAILURE_S, None, str(error))
        return _Kept(self._clock() + DOCUMENT_S, client, "")

    async def _fetch(self, url: str) -> bytes:
        """Return the document. Raises ValueError, and as GuardedClient.send."""
        request = Request(
            "GET",
            url,
            {"Accept": "application/json"},
            timeout_s=FETCH_TIMEOUT_S,
            most_bytes=MAX_DOCUMENT_BYTES,
        )
        async with GuardedClient(self._rules, "oauth") as outgoing:
            answer = await outgoing.send(request)
        if answer.status != 200:
            raise ValueError(f"the server answers {answer.status}; redirects are not followed")
        return answer.body


def find_url_fault(url: str) -> str:
    """Return why a URL cannot be the id of a client, "" if it can."""
    rule = "must be an https URL with a path, or an id that this server has issued"
    if len(url) > MAX_URL or re.search(r"[^!-~]", url) or not url.startswith("https://"):
        return rule
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return rule
    segments = parts.path.split("/")
    if not AUTHORITY.fullmatch(parts.netloc) or parts.path in ("", "/") or "#" in url:
        return rule
    return "must have no . or .. in its path" if {".", ".."} & set(segments) else ""


def parse_document(url: str, body: bytes) -> Client:
    """Return the client of a metadata document. Raises ValueError."""
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ValueError("it is not JSON") from error
    if not isinstance(given, dict):
        raise ValueError("it is not a JSON object")
    if given.get("client_id") != url:
        raise ValueError("its client_id is not the URL at which it is")
    method = given.get("token_endpoint_auth_method", "none")
    if "client_secret" in given or method in CONFIDENTIAL:
        raise ValueError("it is for clients with a secret; token_endpoint_auth_method must be none")
    name, uris = read_metadata(given)
    return Client(url, name or str(urlsplit(url).hostname), uris)


def describe_redirect(uri: str) -> str:
    """Return where a code goes: the host, or the scheme of an application."""
    parts = urlsplit(uri)
    if parts.scheme == "https":
        return parts.netloc
    if _is_loopback(parts):
        return f"a program on your computer ({parts.hostname})"
    return f"an application on your computer ({parts.scheme}://{parts.netloc})"


def find_form_target(uri: str) -> str:
    """Return the source of CSP to which a form may lead, for the redirect after a consent."""
    parts = urlsplit(uri)
    is_host = parts.scheme in ("http", "https") and not parts.netloc.startswith("[")
    return f"{parts.scheme}://{parts.netloc}" if is_host else f"{parts.scheme}:"
