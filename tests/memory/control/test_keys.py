"""API keys and sessions in the control plane."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.keys import ALL, FORM, SCOPES, CreatedKey, Key, NewKey, digest_of
from tests.memory.control.catalogs import ControlPlane


async def make(control_plane: ControlPlane, *, expires_at: int | None = None) -> CreatedKey:
    async with Catalog(*control_plane) as catalog:
        return await catalog.keys.create(
            NewKey("ann", ["read", "publish"], ["a", "b"], expires_at), now_ms=1000
        )


def test_a_key_is_stored_as_a_hash_and_shown_once(tmp_path: Path) -> None:
    key, text, is_first = asyncio.run(make(ControlPlane(tmp_path)))

    form = FORM.fullmatch(text)
    assert form is not None and is_first
    assert (form[1], digest_of(form[2])) == (key.id, key.digest)
    with closing(sqlite3.connect(tmp_path / "system.db")) as connection:
        assert form[2] not in "\n".join(connection.iterdump())


def test_a_key_is_read_back_as_created(control_plane: ControlPlane) -> None:
    async def list_keys() -> list[Key]:
        async with Catalog(*control_plane) as catalog:
            return await catalog.keys.every()

    made = asyncio.run(make(control_plane, expires_at=5000)).key

    assert asyncio.run(list_keys()) == [made]
    assert (made.scopes, made.pipelines, made.expires_at) == ({"read", "publish"}, {"a", "b"}, 5000)


def test_a_key_is_valid_until_it_expires_or_is_revoked() -> None:
    key = Key("a", "ann", b"", frozenset(SCOPES), frozenset({ALL}), 0, 5000, None)

    assert [key.fault(now_ms) for now_ms in (0, 4999, 5000)] == ["", "", "has expired"]
    assert key._replace(revoked_at=1).fault(0) == "was revoked"
    assert key._replace(expires_at=None).fault(1 << 60) == ""


def test_a_revoked_key_stays_listed_with_its_first_revocation_time(
    control_plane: ControlPlane,
) -> None:
    async def revoke() -> tuple[list[bool], list[Key]]:
        async with Catalog(*control_plane) as catalog:
            key = (await catalog.keys.create(NewKey("ann", SCOPES, [ALL]), now_ms=1)).key
            results = [
                await catalog.keys.revoke(ident, at)
                for ident, at in ((key.id, 7), (key.id, 8), ("unknown", 9))
            ]
            return results, await catalog.keys.every()

    results, (key,) = asyncio.run(revoke())

    assert (results, key.revoked_at) == ([True, True, False], 7)
