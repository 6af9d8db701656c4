"""Dead letters: the messages that were given up, as they came."""
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memory.sqlite.system import letters
from memory.system_file import SystemFile


class DeadLetter(NamedTuple):
    """A message that was given up, as it came, with the reason."""

    pipeline: str
    id: str
    swarm: str
    data: bytes
    error: str
    bundle: str
    buried_at: int   # Unix ms


class DeadLetters:
    """Keeps them in the control plane."""

    def __init__(self, file: SystemFile) -> None:
        """`file` is open."""
        self._file = file

    async def bury(self, buried: Sequence[DeadLetter]) -> None:
        """Keeps dead letters, all or none; one that is there already stays as it is."""
        async with self._file.changing() as database:
            await letters.bury(database, buried)

    async def every(self, uid: str) -> Iterable[DeadLetter]:
        """The dead letters of a pipeline, oldest first."""
        with self._file.reading() as database:
            return [DeadLetter._make(row) for row in await letters.every(database, uid)]

    async def count(self) -> dict[str, int]:
        """How many dead letters each pipeline has that has any."""
        with self._file.reading() as database:
            return {uid: int(count) for uid, count in await letters.count(database)}
