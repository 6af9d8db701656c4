"""OAuth for tests: a server that offers it, a user with a browser's cookie, and a plain client.

`DocumentServer` is an https server with client id metadata documents. The web server reaches it
because its settings list that port of localhost.
"""

import base64
import hashlib
import html
import json
import re
import secrets
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.support.http import Answer, ask
from tests.support.keys import ApiKey, await_closed, make_key
from tests.support.replicated_bus import free_port
from tests.support.tls import Certificates
from tests.support.web_system import WebSystem

REDIRECT = "https://app.example/callback"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}
MCP = JSON | {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}
CSRF = re.compile(r'name="csrf" value="([0-9a-f]*)"')


class DocumentServer:
    """Serves documents by path over https at localhost. Use it as a context.

    `documents` has JSON values or bytes, `statuses` others than 200 with the header Location, and
    `delay_s` is the time before the last byte. `asked` lists the requested paths.
    """

    def __init__(self, certificates: Certificates) -> None:
        self.documents: dict[str, Any] = {}
        self.statuses: dict[str, tuple[int, str]] = {}
        self.delays_s: dict[str, float] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server, certificates.key_of(certificates.server))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def url(self, path: str) -> str:
        """Return the URL of a path."""
        return f"https://localhost:{self.port}{path}"

    def add(self, path: str, **metadata: Any) -> str:
        """Serve a metadata document at a path, and return its URL, the id of the client."""
        url = self.url(path)
        self.documents[path] = {
            "client_id": url,
            "client_name": "Assistant",
            "redirect_uris": [REDIRECT],
            "token_endpoint_auth_method": "none",
        } | metadata
        return url

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path
        self.asked.append(path)
        body = self.documents.get(path, b"")
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, location = self.statuses.get(path, (200 if data else 404, ""))
        handler.send_response(status)
        if location:
            handler.send_header("Location", location)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        time.sleep(self.delays_s.get(path, 0))
        with suppress(OSError):  # the server has given up
            handler.wfile.write(data)


@dataclass
class OAuthClient:
    """A client that sends what a test wants. `verifier` is its PKCE verifier."""

    url: str
    resource: str
    client_id: str = ""
    redirect_uri: str = REDIRECT
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def register(self, **metadata: Any) -> Answer:
        """Register dynamically. `client_id` is set after success."""
        given = {"client_name": "Assistant", "redirect_uris": [self.redirect_uri]} | metadata
        answer = ask(self.url, "POST", "/oauth/register", given, JSON)
        if answer.status == 201:
            self.client_id = answer.json["client_id"]
        return answer

    def query(self, **changes: str | None) -> str:
        """Return the query of an authorization request. None leaves a parameter out."""
        given: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "code_challenge": make_challenge(self.verifier),
            "code_challenge_method": "S256",
            "state": "s-1",
            "resource": self.resource,
        }
        return urlencode({name: one for name, one in (given | changes).items() if one is not None})

    def redeem(self, code: str, **changes: str | None) -> Answer:
        """Exchange a code."""
        given = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
            "resource": self.resource,
        }
        return self.post("token", given | changes)

    def refresh(self, token: str, **changes: str | None) -> Answer:
        """Exchange a refresh token."""
        given = {
            "grant_type": "refresh_token",
            "refresh_token": token,
            "client_id": self.client_id,
        }
        return self.post("token", given | changes)

    def revoke(self, token: str, **changes: str | None) -> Answer:
        """Revoke a token."""
        return self.post("revoke", {"token": token, "client_id": self.client_id} | changes)

    def post(self, endpoint: str, given: dict[str, Any]) -> Answer:
        """Send a form to an endpoint. None leaves a parameter out."""
        form = urlencode({name: one for name, one in given.items() if one is not None})
        return ask(self.url, "POST", f"/oauth/{endpoint}", form, FORM)


class User:
    """A person who is logged in with a key in a browser."""

    def __init__(self, url: str, key: ApiKey) -> None:
        self.url, self.key = url, key
        self.cookie: dict[str, str] = {}
        answer = self.send("POST", "/login", urlencode({"key": key.text, "next": "/"}))
        assert answer.status == 303, answer
        self.cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}

    def send(self, method: str, path: str, body: str = "", **headers: str) -> Answer:
        """Send what a page of the console sends."""
        parts = urlsplit(self.url)
        own = {"Origin": f"{parts.scheme}://{parts.netloc}", "Sec-Fetch-Site": "same-origin"}
        sent = own if method == "POST" else {}
        return ask(self.url, method, path, body, sent | FORM | self.cookie | headers)

    def open(self, query: str) -> Answer:
        """Open the consent page of an authorization request."""
        return self.send("GET", f"/oauth/consent?{query}")

    def decide(self, query: str, page: Answer | None = None, **changes: Any) -> Answer:
        """Send the form of the consent page, by default with Allow and the default scopes."""
        page = page or self.open(query)
        found = CSRF.search(page.body.decode())
        given = {
            "csrf": found[1] if found else "",
            "decision": "allow",
            "scopes": ["search", "write"],
            "pipeline": _find_pipeline(page),
            "days": "30",
        }
        form = {name: one for name, one in (given | changes).items() if one is not None}
        return self.send("POST", f"/oauth/consent?{query}", urlencode(form, doseq=True))

    def allow(self, query: str, **changes: Any) -> str:
        """Allow a request and return the code."""
        answer = self.decide(query, **changes)
        assert answer.status == 303, (answer.status, answer.body.decode()[-3000:])
        return read_redirect(answer)["code"]


class OAuthSystem(NamedTuple):
    """A server with OAuth, a pipeline, and a user with a key for it."""

    web_system: WebSystem
    documents: DocumentServer
    uid: str
    user: User

    @property
    def url(self) -> str:
        return self.web_system.url

    @property
    def root(self) -> Path:
        return self.web_system.system.root

    def resource(self, uid: str = "") -> str:
        """Return the URL of a pipeline's MCP server."""
        return f"{self.url}/mcp/{uid or self.uid}"

    def client(self, **metadata: Any) -> OAuthClient:
        """Return a client with a metadata document."""
        ident = self.documents.add(f"/clients/{secrets.token_hex(8)}", **metadata)
        return OAuthClient(self.url, self.resource(), ident)

    def connect(self, client: OAuthClient, **choice: Any) -> dict[str, Any]:
        """Return the tokens of a new grant."""
        answer = client.redeem(self.user.allow(client.query(), **choice))
        assert answer.status == 200, answer
        tokens: dict[str, Any] = answer.json
        return tokens

    def call(self, token: str, tool: str = "memory_search", path: str = "", **given: Any) -> Answer:
        """Call a tool with a token, by default one that needs `search`."""
        params = {"name": tool, "arguments": given or {"query": "tea"}}
        return self.send(token, "tools/call", params, path)

    def send(
        self, token: str, method: str, params: dict[str, Any] | None = None, path: str = ""
    ) -> Answer:
        """Send a request of MCP with a token."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        headers = MCP | {"Authorization": f"Bearer {token}"}
        return ask(self.url, "POST", path or f"/mcp/{self.uid}", body, headers)


@contextmanager
def running_oauth(folder: Path, **settings: str) -> Iterator[OAuthSystem]:
    """Start a server with OAuth, whose user has a key with every scope for every pipeline."""
    certificates, port = Certificates(folder), free_port()
    with DocumentServer(certificates) as documents:
        place = {"host": "localhost", "port": documents.port, "for": ["oauth"]}
        settings = {
            "WEB__PORT": str(port),
            "WEB__PUBLIC_URL": f"http://127.0.0.1:{port}{settings.get('WEB__BASE_PATH', '')}",
            "WEB__RATE": "0",
            "OUTGOING__PRIVATE": json.dumps([place]),
        } | settings
        trust = {"SSL_CERT_FILE": certificates.ca}
        with WebSystem(secrets=trust, **settings) as web_system:
            key = make_key(web_system.system.root, name="ada")
            await_closed(web_system)
            uid = web_system.deploy()
            yield OAuthSystem(web_system, documents, uid, User(web_system.url, key))


def make_challenge(verifier: str) -> str:
    """Return the S256 challenge of a verifier."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def read_redirect(answer: Answer) -> dict[str, str]:
    """Return the parameters that a redirect hands to the client."""
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


def _find_pipeline(page: Answer) -> str:
    text = html.unescape(page.body.decode())
    found = re.search(r'name="pipeline" value="([^"]*)"|<option value="([\w-]{4,})"', text)
    return (found[1] or found[2]) if found else ""
