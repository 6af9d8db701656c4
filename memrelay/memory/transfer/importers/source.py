"""Sources: functions that read the file of another system and yield its items.

Each module of this package with `@source` is one source.
"""

import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from memrelay.memory.engine.models import load
from memrelay.memory.errors import BadExport
from memrelay.memory.transfer import importers
from memrelay.memory.transfer.importers.items import Found


class RefusedFile(BadExport):
    """The container is damaged or breaks a limit, so the whole file is refused."""


class Given(NamedTuple):
    """The input of a source.

    It is read twice, and both times it yields the same items.
    """

    # None if the items come from `url`.
    path: Path | None
    # The value of --as: `facts`, `records` or `turns`; "" for the items as the source has them.
    target: str = ""
    # Only ChatGPT: all branches of a conversation, not only the current one.
    all_branches: bool = False
    # Yields the decoded JSON answer of the REST API, page by page. Only for sources with `has_url`.
    pages: Callable[[], Iterator[object]] | None = None
    # Receives a note for the user, for example how to fetch what the file does not hold.
    note: Callable[[str], None] = lambda _: None

    @property
    def file(self) -> Path:
        """Return the path of the file."""
        if self.path is None:
            raise RefusedFile("this source needs a file")
        return self.path


Reader = Callable[[Given], Iterator[Found]]


class Source(NamedTuple):
    """A system whose files can be imported."""

    name: str
    # Yields every item and fault in the order of the file. Raises RefusedFile and OSError.
    read: Reader
    # Returns whether a file has the structure of this source, by its beginning. `auto` asks all.
    detect: Callable[[Path], bool]
    # Whether it reads a REST API too.
    has_url: bool
    # Whether it reads `all_branches`.
    has_branches: bool


_SOURCES: dict[str, Source] = {}


def source(
    name: str,
    detect: Callable[[Path], bool],
    *,
    has_url: bool = False,
    has_branches: bool = False,
) -> Callable[[Reader], Reader]:
    """Register the function that reads a source."""

    def register(read: Reader) -> Reader:
        _SOURCES[name] = Source(name, read, detect, has_url, has_branches)
        return read

    return register


def all_sources() -> dict[str, Source]:
    """Import all sources and return them by name, sorted."""
    for module in pkgutil.iter_modules(importers.__path__):
        load(f"{importers.__name__}.{module.name}")
    return dict(sorted(_SOURCES.items()))
