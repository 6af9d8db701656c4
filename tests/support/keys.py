"""API keys for tests, created in the control plane as `memrelay keys create` does."""

import asyncio
import time
from pathlib import Path
from typing import NamedTuple

from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.keys import ALL, SCOPES, NewKey
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem


class ApiKey(NamedTuple):
    """A key as its holder has it."""

    id: str
    text: str

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of a request with this key."""
        return {"Authorization": f"Bearer {self.text}"}


def make_key(
    root: Path,
    *scopes: str,
    pipelines: tuple[str, ...] = (ALL,),
    lasts_ms: int | None = None,
    name: str = "test",
) -> ApiKey:
    """Create a key, by default with every scope. A negative `lasts_ms` makes an expired key."""
    now_ms = time.time_ns() // 1_000_000
    expires_at = None if lasts_ms is None else now_ms + lasts_ms
    return asyncio.run(_make(root, NewKey(name, scopes or SCOPES, pipelines, expires_at), now_ms))


async def _make(root: Path, new: NewKey, now_ms: int) -> ApiKey:
    async with Catalog(root) as catalog:
        created = await catalog.keys.create(new, now_ms=now_ms)
    return ApiKey(created.key.id, created.text)


def revoke(root: Path, key: ApiKey) -> None:
    asyncio.run(_revoke(root, key))


async def _revoke(root: Path, key: ApiKey) -> None:
    async with Catalog(root) as catalog:
        assert await catalog.keys.revoke(key.id, time.time_ns() // 1_000_000)


def await_closed(web_system: WebSystem) -> None:
    """Wait until the web server requires authentication."""
    wait_for(lambda: web_system.get("/status").status == 401, "who has no key is not let in")
