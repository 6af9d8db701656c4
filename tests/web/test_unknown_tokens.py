"""Invented access tokens: they do not make the server read all keys again."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.keys import ALL, AccessToken, NewKey
from memrelay.memory.control.oauth import Consent, OAuthRows, Redemption
from memrelay.web.auth.authorizer import Authorizer
from memrelay.web.server.errors import Unauthorized
from memrelay.web.server.options import OPTIONS, WebOptions

NOW = 1_000_000
CHALLENGE = "c" * 43


class CountingRows(OAuthRows):
    """Counts its reads of all tokens."""

    count = 0

    async def list_access_tokens(self) -> Mapping[str, Sequence[AccessToken]]:
        self.count += 1
        return await super().list_access_tokens()


def make_request(token: str) -> web.Request:
    app = web.Application()
    app[OPTIONS] = WebOptions()
    headers = {"Authorization": f"Bearer {token}"}
    return make_mocked_request("POST", "/mcp/a", headers, app=app)


async def issue(catalog: Catalog, rows: OAuthRows) -> str:
    """Return an access token of a new grant."""
    key = (await catalog.keys.create(NewKey("ann", ["search"], [ALL]), now_ms=NOW)).key
    ends_at = NOW + 86_400_000
    code = await rows.add_code(
        Consent("c", "App", "r", CHALLENGE, "/mcp/a", key.id, ["search"], "a", ends_at), NOW
    )
    given = Redemption("c", "r", CHALLENGE, "/mcp/a")
    return (await rows.redeem(code, given, NOW)).access_token


def test_only_a_new_token_of_another_server_is_looked_for(tmp_path: Path) -> None:
    async def run() -> None:
        now_s = NOW / 1000
        async with Catalog(tmp_path) as catalog:
            rows = catalog.open_rows(CountingRows)
            authorizer = Authorizer(catalog, on_loopback=True, oauth=rows, clock=lambda: now_s)
            first = await issue(catalog, rows)
            await authorizer.get_credentials()
            second = await issue(catalog, rows)

            caller = await authorizer.get_caller(make_request(second))
            assert caller.pipelines == {"a"}

            invented = ("mra_x", f"mra_{'0' * 12}_{'0' * 64}", second[:-64] + "0" * 64)
            before = rows.count
            for token in invented * 30:
                with pytest.raises(Unauthorized):
                    await authorizer.get_caller(make_request(token))
            now_s += 3_601
            for _ in range(30):
                with pytest.raises(Unauthorized, match="expired"):
                    await authorizer.get_caller(make_request(first))
            assert rows.count - before < 20  # one a second

    asyncio.run(run())
