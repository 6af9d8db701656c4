"""Sessions in the control plane."""

import asyncio

from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.keys import MOST_OF_A_KEY, Session, digest_of
from tests.memory.control.catalogs import ControlPlane


def test_a_session_is_stored_as_a_hash_until_it_ends(control_plane: ControlPlane) -> None:
    async def use() -> tuple[str, list[Session], list[Session]]:
        async with Catalog(*control_plane) as catalog:
            token = await catalog.sessions.begin("a", 5000, 0)
            during = await catalog.sessions.every()
            await catalog.sessions.end(token)
            return token, during, await catalog.sessions.every()

    token, during, after = asyncio.run(use())

    assert (during, after) == ([Session(digest_of(token), "a", 5000)], [])


def test_expired_and_excess_sessions_are_deleted(control_plane: ControlPlane) -> None:
    async def use() -> list[Session]:
        async with Catalog(*control_plane) as catalog:
            await catalog.sessions.begin("expired", 5, 0)
            for number in range(MOST_OF_A_KEY + 5):
                await catalog.sessions.begin("a", 1000 + number, 10)
            await catalog.sessions.begin("b", 1000, 10)
            return await catalog.sessions.every()

    kept = asyncio.run(use())

    assert {session.key for session in kept} == {"a", "b"}
    assert sorted(session.expires_at for session in kept if session.key == "a") == list(
        range(1005, 1005 + MOST_OF_A_KEY)
    )
