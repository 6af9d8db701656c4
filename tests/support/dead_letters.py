"""Replays of dead letters, as the CLI and the web server make them."""

import asyncio
from pathlib import Path

from memrelay.bus.client.url import Address
from memrelay.bus.streams.ingress import Ingress
from memrelay.memory.control.catalog import Catalog
from memrelay.web.api.dead_letter_json import make_replay_entry
from tests.support.system import TestSystem


def replay(system: TestSystem, uid: str, ident: str, times: int = 1) -> list[str]:
    """Request so many replays at once and return the IDs of the entries."""
    return asyncio.run(_replay(system.root, system.client.socket, (uid, ident), times))


def drop(system: TestSystem, uid: str, ident: str) -> bool:
    """Delete a dead letter and return whether it existed."""
    return asyncio.run(_drop(system.root, uid, ident))


async def _replay(root: Path, socket: Path, letter: tuple[str, str], times: int) -> list[str]:
    async with Catalog(root) as catalog, Ingress(Address(path=str(socket))) as ingress:
        return await asyncio.gather(*[_append(catalog, ingress, letter) for _ in range(times)])


async def _append(catalog: Catalog, ingress: Ingress, letter: tuple[str, str]) -> str:
    return await ingress.append(await make_replay_entry(catalog, *letter))


async def _drop(root: Path, uid: str, ident: str) -> bool:
    async with Catalog(root) as catalog:
        return bool(await catalog.dead_letters.remove(uid, [ident]))
