"""Helpers for tests of the control plane: a catalog, its bundles and its dead letters."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from memrelay.memory.control.catalog import Catalog, Deployed, DeployResult
from memrelay.memory.control.dead_letters import DeadLetter
from tests.memory.builders import NOW


class ControlPlane(NamedTuple):
    """The place of a control plane: a memory root, and a `storage.url` or ""."""

    root: Path
    url: str = ""


def with_catalog(control_plane: ControlPlane, work: Callable[[Catalog], Awaitable[Any]]) -> Any:
    """Open a catalog and return the result of `work` on it."""

    async def run() -> Any:
        async with Catalog(*control_plane) as catalog:
            return await work(catalog)

    return asyncio.run(run())


def make_dead_letter(
    ident: str = "1-0", error: str = "no JSON", failed_at: int = NOW, data: bytes = b"{}"
) -> DeadLetter:
    return DeadLetter("a3d8f1b2", ident, "chat", data, error, "hash", failed_at)


def deploy(
    control_plane: ControlPlane,
    uid: str = "a3d8f1b2",
    name: str = "tea",
    bundle_hash: str = "h1",
    now_ms: int = NOW,
) -> Deployed:
    source = f'{{"hash": "{bundle_hash}"}}'.encode()
    answer = with_catalog(
        control_plane, lambda catalog: catalog.deploy(uid, name, bundle_hash, source, now_ms)
    )
    assert isinstance(answer, DeployResult)
    return answer.after


def list_dead_letters(control_plane: ControlPlane) -> list[DeadLetter]:
    """Return the dead letters of the pipeline in order of arrival."""

    async def work(catalog: Catalog) -> list[DeadLetter | None]:
        listed = await catalog.dead_letters.page(["a3d8f1b2"], limit=1000)
        return [await catalog.dead_letters.find("a3d8f1b2", one.id) for one in listed]

    return list(with_catalog(control_plane, work))
