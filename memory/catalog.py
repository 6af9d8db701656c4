"""The control plane: deployed bundles, and beside them dead letters. Low rate, opened by every process of a host."""
from pathlib import Path
from typing import NamedTuple, Self

from memory.dead_letters import DeadLetters
from memory.sqlite.system import bundles
from memory.system_file import SystemFile


class Deployed(NamedTuple):
    """The active bundle of a pipeline."""

    uid: str
    name: str
    hash: str
    version: int
    deployed_at: int   # Unix ms


class Catalog:
    """Reads and writes system.db; raises StoreBusy while another program keeps it locked. Use it as an asynchronous context."""

    def __init__(self, root: Path) -> None:
        """`root` is the memory root."""
        self._file = SystemFile(root)
        self.letters = DeadLetters(self._file)

    async def __aenter__(self) -> Self:
        """Opens the file, or makes it. Raises StoreBroken."""
        await self._file.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the file."""
        await self._file.__aexit__()

    async def deploy(self, uid: str, name: str, bundle_hash: str, source: bytes, now_ms: int) -> Deployed:
        """Keeps a bundle by its hash and makes it the active one of its pipeline; the same one again changes nothing."""
        async with self._file.changing() as database:
            await bundles.deploy(database, (uid, name, bundle_hash, source, now_ms))
        found = await self.find(uid)
        assert found is not None
        return found

    async def remove(self, uid: str) -> bool:
        """Takes a pipeline out of service and says whether there was one; its store, input and bundles stay."""
        async with self._file.changing() as database:
            return await bundles.remove(database, uid)

    async def active(self) -> list[Deployed]:
        """All pipelines in service, by name."""
        with self._file.reading() as database:
            return [Deployed._make(row) for row in await bundles.active(database)]

    async def find(self, uid_or_name: str) -> Deployed | None:
        """The pipeline of that uid, else of that name where only one has it."""
        everything = await self.active()
        named = [one for one in everything if one.name == uid_or_name]
        return next((one for one in everything if one.uid == uid_or_name), named[0] if len(named) == 1 else None)

    async def source(self, bundle_hash: str) -> bytes | None:
        """A bundle's JSON."""
        with self._file.reading() as database:
            return await bundles.source(database, bundle_hash)
