"""The client of the official Python SDK connects, refreshes, and asks for more scopes."""

import asyncio

import pytest

from tests.support.oauth import OAuthSystem
from tests.support.oauth_connection import Connection


@pytest.mark.parametrize("kind", ["document", "registration"])
def test_the_python_client_connects_and_asks_for_more(oauth: OAuthSystem, kind: str) -> None:
    uris = ["http://127.0.0.1/callback"]
    document = oauth.client(redirect_uris=uris).client_id if kind == "document" else None
    connection = Connection(oauth, document)

    read = asyncio.run(connection.run())

    assert "items" in read
    assert connection.storage.tokens is not None and connection.storage.info is not None
    is_document = connection.storage.info.client_id == document
    assert is_document is (kind == "document")
    # The first time with the default scopes, and again when a call needs `read`.
    assert ["scope=search+write" in one for one in connection.asked] == [True, True]
    assert "read" not in connection.asked[0] and "read" in connection.asked[1]


def test_the_python_client_refreshes_an_expired_token(oauth: OAuthSystem) -> None:
    document = oauth.client(redirect_uris=["http://127.0.0.1/callback"]).client_id
    connection = Connection(oauth, document)
    asyncio.run(connection.run())
    first = connection.storage.tokens
    connection.provider.context.token_expiry_time = 1

    asyncio.run(connection.run())

    assert first is not None and connection.storage.tokens is not None
    assert connection.storage.tokens.refresh_token != first.refresh_token
    assert len(connection.asked) == 2
