"""The client of the official Python SDK, whose user allows what it asks for."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.support.mcp_clients import STATELESS, call, names_of_tools
from tests.support.oauth import OAuthSystem, read_redirect


class Storage:
    """What the client keeps."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.info: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.info = client_info


class Connection:
    """A client whose user allows what it asks for."""

    def __init__(self, oauth: OAuthSystem, document: str | None) -> None:
        self.oauth, self.storage, self.asked = oauth, Storage(), list[str]()
        redirect = "http://127.0.0.1:50001/callback"
        self.provider = OAuthClientProvider(
            oauth.resource(),
            OAuthClientMetadata(client_name="Python", redirect_uris=[AnyUrl(redirect)]),
            self.storage,
            self.open_browser,
            self.await_callback,
            client_metadata_url=document,
        )

    async def open_browser(self, url: str) -> None:
        self.asked.append(urlsplit(url).query)

    async def await_callback(self) -> AuthorizationCodeResult:
        return await asyncio.to_thread(self.allow)

    def allow(self) -> AuthorizationCodeResult:
        query = self.asked[-1]
        scopes = [one for one in ("search", "read", "write") if one in query]
        answer = read_redirect(self.oauth.user.decide(query, scopes=scopes))
        return AuthorizationCodeResult(
            code=answer["code"], state=answer.get("state"), iss=answer.get("iss")
        )

    async def run(self) -> dict[str, Any]:
        async with httpx2.AsyncClient(auth=self.provider, timeout=60) as http:
            transport = streamable_http_client(self.oauth.resource(), http_client=http)
            async with Client(transport, mode=STATELESS) as client:
                assert "memory_remember" in await names_of_tools(client)
                await call(client, "memory_remember", text="Ada likes tea")
                return await call(client, "memory_read", limit=1)
