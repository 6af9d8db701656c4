"""With a base path, the metadata is at the root of the host, and all else below the path."""

import asyncio
from pathlib import Path

import pytest

from tests.support.http import ask
from tests.support.oauth import MCP, running_oauth
from tests.support.oauth_connection import Connection

pytestmark = pytest.mark.slow


def test_a_client_connects_to_a_server_below_a_path(tmp_path: Path) -> None:
    with running_oauth(tmp_path, WEB__BASE_PATH="/relay") as oauth:
        host = oauth.url.removesuffix("/relay")
        refused = ask(oauth.url, "POST", f"/mcp/{oauth.uid}", {}, MCP)
        server = ask(host, "GET", "/.well-known/oauth-authorization-server/relay").json
        connection = Connection(oauth, None)

        assert (
            f'resource_metadata="{host}/.well-known/oauth-protected-resource/relay/mcp/{oauth.uid}"'
            in refused.headers["www-authenticate"]
        )
        assert server["issuer"] == oauth.url
        assert server["token_endpoint"] == f"{oauth.url}/oauth/token"
        assert "items" in asyncio.run(connection.run())
