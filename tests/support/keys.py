"""Keys for tests, made in the control plane's file as `memrelay keys create` makes them."""

import asyncio
import time
from pathlib import Path
from typing import NamedTuple

from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.keys import ALL, SCOPES
from tests.support.served import Served
from tests.support.waiting import wait_for


class Held(NamedTuple):
    """A key as its holder has it."""

    id: str
    text: str

    @property
    def headers(self) -> dict[str, str]:
        """What is sent with a request."""
        return {"Authorization": f"Bearer {self.text}"}


def make_key(
    root: Path, *scopes: str, pipelines: tuple[str, ...] = (ALL,), lasts_ms: int | None = None
) -> Held:
    """A new key, with every scope where none is named; `lasts_ms` below 0 is one that has
    expired."""
    return asyncio.run(_make(root, scopes or SCOPES, pipelines, lasts_ms))


async def _make(
    root: Path, scopes: tuple[str, ...], pipelines: tuple[str, ...], lasts_ms: int | None
) -> Held:
    now_ms = time.time_ns() // 1_000_000
    async with Catalog(root) as catalog:
        key, text = await catalog.keys.create(
            "test",
            scopes,
            pipelines,
            None if lasts_ms is None else now_ms + lasts_ms,
            now_ms=now_ms,
        )
    return Held(key.id, text)


def revoke(root: Path, key: Held) -> None:
    """It opens nothing any more."""
    asyncio.run(_revoke(root, key))


async def _revoke(root: Path, key: Held) -> None:
    async with Catalog(root) as catalog:
        assert await catalog.keys.revoke(key.id, time.time_ns() // 1_000_000)


def await_closed(served: Served) -> None:
    """Waits until the web server knows that keys were made."""
    wait_for(lambda: served.get("/status").status == 401, "who has no key is not let in")
