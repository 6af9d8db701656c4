"""Keys and sessions in the control plane."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.keys import ALL, FORM, SCOPES, Key, digest_of
from memrelay.memory.control.sessions import MOST_OF_A_KEY, Session


async def make(root: Path, **how: int | None) -> tuple[Key, str]:
    async with Catalog(root) as catalog:
        return await catalog.keys.create(
            "ann", ["read", "publish"], ["a", "b"], how.get("expires_at"), now_ms=1000
        )


def test_a_key_is_kept_as_a_hash_and_shown_once(tmp_path: Path) -> None:
    key, text = asyncio.run(make(tmp_path))

    form = FORM.fullmatch(text)
    assert form is not None
    assert (form[1], digest_of(form[2])) == (key.id, key.digest)
    with closing(sqlite3.connect(tmp_path / "system.db")) as connection:
        assert form[2] not in "\n".join(connection.iterdump())


def test_a_key_comes_back_as_it_was_made(tmp_path: Path) -> None:
    async def every() -> list[Key]:
        async with Catalog(tmp_path) as catalog:
            return await catalog.keys.every()

    made, _ = asyncio.run(make(tmp_path, expires_at=5000))

    assert asyncio.run(every()) == [made]
    assert (made.scopes, made.pipelines, made.expires_at) == ({"read", "publish"}, {"a", "b"}, 5000)


def test_a_key_is_in_force_until_it_expires_or_is_revoked() -> None:
    key = Key("a", "ann", b"", frozenset(SCOPES), frozenset({ALL}), 0, 5000, None)

    assert [key.fault(now_ms) for now_ms in (0, 4999, 5000)] == ["", "", "has expired"]
    assert key._replace(revoked_at=1).fault(0) == "was revoked"
    assert key._replace(expires_at=None).fault(1 << 60) == ""


def test_a_key_is_revoked_once_and_never_forgotten(tmp_path: Path) -> None:
    async def revoke() -> tuple[list[bool], list[Key]]:
        async with Catalog(tmp_path) as catalog:
            key, _ = await catalog.keys.create("ann", SCOPES, [ALL], None, now_ms=1)
            told = [
                await catalog.keys.revoke(ident, at)
                for ident, at in ((key.id, 7), (key.id, 8), ("nobody", 9))
            ]
            return told, await catalog.keys.every()

    told, (key,) = asyncio.run(revoke())

    assert (told, key.revoked_at) == ([True, True, False], 7)


def test_a_session_is_kept_as_a_hash_until_it_ends(tmp_path: Path) -> None:
    async def use() -> tuple[str, list[Session], list[Session]]:
        async with Catalog(tmp_path) as catalog:
            token = await catalog.sessions.begin("a", 5000, 0)
            during = await catalog.sessions.every()
            await catalog.sessions.end(token)
            return token, during, await catalog.sessions.every()

    token, during, after = asyncio.run(use())

    assert (during, after) == ([Session(digest_of(token), "a", 5000)], [])


def test_sessions_do_not_pile_up(tmp_path: Path) -> None:
    async def use() -> list[Session]:
        async with Catalog(tmp_path) as catalog:
            await catalog.sessions.begin("over", 5, 0)
            for number in range(MOST_OF_A_KEY + 5):
                await catalog.sessions.begin("a", 1000 + number, 10)
            await catalog.sessions.begin("b", 1000, 10)
            return await catalog.sessions.every()

    kept = asyncio.run(use())

    assert {session.key for session in kept} == {"a", "b"}
    assert sorted(session.expires_at for session in kept if session.key == "a") == list(
        range(1005, 1005 + MOST_OF_A_KEY)
    )
