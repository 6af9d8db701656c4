"""Helpers for tests of the control plane: a catalog, its bundles and its dead letters."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from memrelay.memory.control.catalog import Catalog, Deployed, Swapped
from memrelay.memory.control.dead_letters import DeadLetter
from tests.memory.builders import NOW


def with_catalog(root: Path, work: Callable[[Catalog], Awaitable[Any]]) -> Any:
    """Open a catalog and return the result of `work` on it."""

    async def run() -> Any:
        async with Catalog(root) as catalog:
            return await work(catalog)

    return asyncio.run(run())


def make_dead_letter(
    ident: str = "1-0", error: str = "no JSON", buried_at: int = NOW, data: bytes = b"{}"
) -> DeadLetter:
    return DeadLetter("a3d8f1b2", ident, "chat", data, error, "hash", buried_at)


def deploy(
    root: Path, uid: str = "a3d8f1b2", name: str = "tea", bundle_hash: str = "h1", now_ms: int = NOW
) -> Deployed:
    source = f'{{"hash": "{bundle_hash}"}}'.encode()
    answer = with_catalog(
        root, lambda catalog: catalog.deploy(uid, name, bundle_hash, source, now_ms)
    )
    assert isinstance(answer, Swapped)
    return answer.after


def list_dead_letters(root: Path) -> list[DeadLetter]:
    """Return the dead letters of the pipeline in order of arrival."""

    async def work(catalog: Catalog) -> list[DeadLetter | None]:
        listed = await catalog.letters.page(["a3d8f1b2"], limit=1000)
        return [await catalog.letters.find("a3d8f1b2", one.id) for one in listed]

    return list(with_catalog(root, work))
