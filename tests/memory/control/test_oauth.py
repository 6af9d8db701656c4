"""Clients, codes, tokens and grants of OAuth in the control plane, on both databases."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.database import copy_control_plane
from memrelay.memory.control.keys import ALL, NewKey, digest_of
from memrelay.memory.control.oauth import (
    MAX_ACCESS_TOKENS,
    MAX_CLIENTS,
    UNUSED_CLIENT_MS,
    Client,
    Consent,
    InvalidGrant,
    Issued,
    OAuthRows,
    Redemption,
    Renewal,
)
from memrelay.memory.control.opening import open_database
from tests.memory.control.catalogs import ControlPlane

NOW = 1_000_000
REDIRECT, CLIENT, MONTH_MS = "https://app.example/cb", "https://app.example/client", 30 * 86_400_000
REDEMPTION = Redemption(CLIENT, REDIRECT, "c" * 43, "/mcp/a")


@asynccontextmanager
async def opened(control_plane: ControlPlane) -> AsyncIterator[tuple[Catalog, OAuthRows]]:
    async with Catalog(*control_plane) as catalog:
        yield catalog, catalog.open_rows(OAuthRows)


async def grant(catalog: Catalog, rows: OAuthRows) -> tuple[str, str, Issued]:
    """Return the id of a key, a used code, and the tokens for it."""
    key = (await catalog.keys.create(NewKey("ann", ["search"], [ALL]), now_ms=NOW)).key
    ends_at = NOW + MONTH_MS
    consent = Consent(CLIENT, "App", REDIRECT, "c" * 43, "/mcp/a", key.id, ["search"], "a", ends_at)
    code = await rows.add_code(consent, NOW)
    return key.id, code, await rows.redeem(code, REDEMPTION, NOW)


def test_a_grant_is_a_key_with_a_parent_and_ends_with_it(control_plane: ControlPlane) -> None:
    async def run() -> None:
        async with opened(control_plane) as (catalog, rows):
            parent, _, issued = await grant(catalog, rows)
            tokens = await rows.list_access_tokens()
            own = {key.id: key for key in await catalog.keys.every()}[issued.grant]
            assert own[3:] == (
                *({"search"}, {"a"}, NOW, NOW + MONTH_MS, None, parent, CLIENT, "/mcp/a"),
            )
            assert [one.expires_at for one in tokens[issued.grant]] == [NOW + 3_600_000]

            assert await catalog.keys.revoke(parent, NOW + 1)
            assert [key.revoked_at for key in await catalog.keys.every()] == [NOW + 1] * 2
            with pytest.raises(InvalidGrant, match="was revoked or has expired"):
                await rows.refresh(issued.refresh_token, Renewal(CLIENT), NOW + 2)

    asyncio.run(run())


def test_a_reused_code_or_refresh_token_ends_only_its_grant(control_plane: ControlPlane) -> None:
    async def run() -> None:
        async with opened(control_plane) as (catalog, rows):
            _, code, first = await grant(catalog, rows)
            _, _, second = await grant(catalog, rows)
            await rows.refresh(second.refresh_token, Renewal(CLIENT), NOW)
            with pytest.raises(InvalidGrant) as replayed:
                await rows.redeem(code, REDEMPTION, NOW)
            with pytest.raises(InvalidGrant) as reused:
                await rows.refresh(second.refresh_token, Renewal(CLIENT), NOW)

            assert (replayed.value.revoked, reused.value.revoked) == (first.grant, second.grant)
            revoked = {key.id for key in await catalog.keys.every() if key.revoked_at}
            assert revoked == {first.grant, second.grant}

    asyncio.run(run())


def test_a_code_that_failed_revokes_no_key(control_plane: ControlPlane) -> None:
    async def run() -> None:
        async with opened(control_plane) as (catalog, rows):
            _, _, issued = await grant(catalog, rows)
            consent = Consent(CLIENT, "App", REDIRECT, "d" * 43, "/mcp", "none", [], "a", NOW)
            code = await rows.add_code(consent, NOW)
            for _ in range(2):
                with pytest.raises(InvalidGrant):
                    await rows.redeem(code, REDEMPTION, NOW)
            await catalog.keys.revoke("", NOW)

            assert [key.revoked_at for key in await catalog.keys.every()] == [None, None]
            assert (await rows.refresh(issued.refresh_token, Renewal(CLIENT), NOW)).grant

    asyncio.run(run())


def test_the_oldest_unused_registrations_end_first(control_plane: ControlPlane) -> None:
    async def find(rows: OAuthRows, clients: list[Client], now_ms: int) -> list[bool]:
        return [await rows.find_client(one.id, now_ms) is not None for one in clients]

    async def run() -> None:
        async with opened(control_plane) as (_, rows):
            used, old, young = [
                await rows.register("App", [REDIRECT], NOW + number) for number in range(3)
            ]
            consent = Consent(used.id, "App", REDIRECT, "", "/mcp", "", [], "a", NOW)
            await rows.add_code(consent, NOW)
            async with rows._database.changing() as database:
                await database.change_many(
                    "INSERT INTO oauth_clients(id, name, redirect_uris, created_at) "
                    "VALUES (?, '', '[]', ?)",
                    [(str(number), NOW + 10) for number in range(MAX_CLIENTS - 3)],
                )
            await rows.register("App", [REDIRECT], NOW + 20)
            assert await find(rows, [used, old, young], NOW + 20) == [True, False, True]

            later = NOW + UNUSED_CLIENT_MS + 30
            assert await find(rows, [used, young], later) == [True, False]

    asyncio.run(run())


def test_a_client_that_refreshes_again_and_again_has_few_tokens(
    control_plane: ControlPlane,
) -> None:
    async def run() -> None:
        async with opened(control_plane) as (catalog, rows):
            _, _, first = await grant(catalog, rows)
            _, _, other = await grant(catalog, rows)
            issued = first
            for number in range(MAX_ACCESS_TOKENS + 5):
                issued = await rows.refresh(issued.refresh_token, Renewal(CLIENT), NOW + number)
            tokens = await rows.list_access_tokens()
            assert len(tokens[first.grant]) == MAX_ACCESS_TOKENS
            newest = digest_of(issued.access_token.rpartition("_")[2])
            assert newest in [one.digest for one in tokens[first.grant]]
            assert len(tokens[other.grant]) == 1

    asyncio.run(run())


def test_an_id_that_no_database_can_hold_is_of_no_client(control_plane: ControlPlane) -> None:
    async def run() -> None:
        async with opened(control_plane) as (_, rows):
            known = await rows.register("App", [REDIRECT], NOW)
            assert await rows.find_client(known.id, NOW) == known
            assert await rows.find_client("mrd_\0", NOW) is None

    asyncio.run(run())


async def send_invented(rows: OAuthRows, secret: str) -> None:
    with pytest.raises(InvalidGrant, match="the code is unknown"):
        await rows.redeem(secret, REDEMPTION, NOW)
    with pytest.raises(InvalidGrant, match="refresh token is unknown"):
        await rows.refresh(secret, Renewal(CLIENT), NOW)
    assert await rows.revoke(secret, CLIENT, NOW) == ""


def test_an_invented_secret_begins_no_transaction(control_plane: ControlPlane) -> None:
    async def run() -> None:
        async with opened(control_plane) as (catalog, rows):
            _, _, issued = await grant(catalog, rows)
            # Another transaction would wait for this one.
            async with asyncio.timeout(10), rows._database.changing():
                await send_invented(rows, "x")
                await send_invented(rows, f"{issued.refresh_token[:-64]}{'0' * 64}")

    asyncio.run(run())


def test_a_token_is_found_by_its_hash_until_it_expires(control_plane: ControlPlane) -> None:
    async def run() -> None:
        async with opened(control_plane) as (catalog, rows):
            _, _, issued = await grant(catalog, rows)
            digest = digest_of(issued.access_token.rpartition("_")[2])
            refresh = digest_of(issued.refresh_token.rpartition("_")[2])
            assert await rows.has_access_token(digest, NOW)
            assert not await rows.has_access_token(digest, NOW + 3_600_000)
            assert not await rows.has_access_token(refresh, NOW)

    asyncio.run(run())


def test_no_secret_is_stored(tmp_path: Path) -> None:
    async def run() -> tuple[str, Issued]:
        async with opened(ControlPlane(tmp_path)) as (catalog, rows):
            _, code, issued = await grant(catalog, rows)
            return code, issued

    code, issued = asyncio.run(run())

    with closing(sqlite3.connect(tmp_path / "system.db")) as connection:
        dump = "\n".join(connection.iterdump())
    for secret in (code, issued.access_token, issued.refresh_token):
        assert secret.rpartition("_")[2] not in dump


def test_grants_move_with_the_control_plane(control_plane: ControlPlane, tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(control_plane) as (catalog, rows):
            _, _, issued = await grant(catalog, rows)
            target = open_database(tmp_path / "copy", "")
            async with target:
                await copy_control_plane(catalog._database, target, replace=False)
        async with opened(ControlPlane(tmp_path / "copy")) as (_, rows):
            assert (await rows.refresh(issued.refresh_token, Renewal(CLIENT), NOW)).grant

    asyncio.run(run())
