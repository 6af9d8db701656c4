"""The control plane: deployed bundles, and beside them dead letters and keys. Low rate, opened by
every process of a host."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Self

from memory.dead_letters import DeadLetters
from memory.errors import NotAsExpected
from memory.expected import ANYTHING, Expected
from memory.keys import Keys
from memory.sessions import Sessions
from memory.sqlite.system import bundles
from memory.system_file import NAME, SystemFile


class Deployed(NamedTuple):
    """A version of a pipeline: the active one, or one that was."""

    uid: str
    name: str
    hash: str
    version: int
    deployed_at: int  # Unix ms


class Swapped(NamedTuple):
    """What a deploy changed; the same on both sides where the bundle was active already."""

    before: Deployed | None  # None where the pipeline was not in service
    after: Deployed


def is_begun(root: Path) -> bool:
    """Whether anything was ever stored in a memory root; to open its catalogue begins one. Raises
    OSError."""
    try:
        (
            root / NAME
        ).stat()  # Path.exists says from Python 3.14 on that what may not be looked at is not there
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


class Catalog:
    """Reads and writes system.db; raises StoreBusy while another program keeps it locked. Use it as
    an asynchronous context."""

    def __init__(self, root: Path) -> None:
        """`root` is the memory root."""
        self._file = SystemFile(root)
        self.letters = DeadLetters(self._file)
        self.keys, self.sessions = Keys(self._file), Sessions(self._file)

    async def __aenter__(self) -> Self:
        """Opens the file, or makes it. Raises StoreBroken, and StoreBusy where it is locked or
        there is no room."""
        await self._file.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the file."""
        await self._file.__aexit__()

    async def deploy(
        self,
        uid: str,
        name: str,
        bundle_hash: str,
        source: bytes,
        now_ms: int,
        *,
        expected: Expected = ANYTHING,
    ) -> Swapped:
        """Keeps a bundle by its hash and makes it the next version of its pipeline; the active one
        again changes nothing.

        Compared and swapped in one transaction: raises NotAsExpected, and then nothing is changed.
        """
        async with self._file.changing() as database:
            before = _first(await bundles.active(database, uid))
            _compare(uid, before, expected)
            if before is not None and before.hash == bundle_hash:
                return Swapped(before, before)
            await bundles.deploy(database, (uid, name, bundle_hash, source, now_ms))
            (after,) = await bundles.active(database, uid)
        return Swapped(before, Deployed._make(after))

    async def remove(self, uid: str, expected: Expected = ANYTHING) -> bool:
        """Takes a pipeline out of service and says whether there was one; its store, input and
        versions stay.

        Raises NotAsExpected where another bundle is in service.
        """
        async with self._file.changing() as database:
            before = _first(await bundles.active(database, uid))
            if before is None:
                return False
            _compare(uid, before, expected)
            return await bundles.remove(database, uid)

    async def active(self) -> list[Deployed]:
        """All pipelines in service, by name."""
        with self._file.reading() as database:
            return [Deployed._make(row) for row in await bundles.active(database)]

    async def serving(self, uid: str) -> Deployed | None:
        """The active version of a pipeline; None where it is not in service."""
        with self._file.reading() as database:
            return _first(await bundles.active(database, uid))

    async def find(self, uid_or_name: str) -> Deployed | None:
        """The pipeline of that uid, else of that name where only one has it."""
        everything = await self.active()
        named = [one for one in everything if one.name == uid_or_name]
        return next(
            (one for one in everything if one.uid == uid_or_name),
            named[0] if len(named) == 1 else None,
        )

    async def source(self, bundle_hash: str) -> bytes | None:
        """A bundle's JSON."""
        with self._file.reading() as database:
            return await bundles.source(database, bundle_hash)

    async def versions(self, uid: str) -> list[Deployed]:
        """Every version that a pipeline ever had, the newest first; of one that was taken out of
        service too."""
        with self._file.reading() as database:
            return [Deployed._make(row) for row in await bundles.versions(database, uid)]


def _first(rows: Iterable[Iterable[Any]]) -> Deployed | None:
    return next((Deployed._make(row) for row in rows), None)


def _compare(uid: str, found: Deployed | None, expected: Expected) -> None:
    if not expected.allows(found.hash if found else None):
        raise NotAsExpected(uid, found.hash if found else "")
