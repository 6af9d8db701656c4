"""Finds the files of blocks: built in, in a folder of `blocks.paths`, or in another distribution.

Nothing here runs a block's file, except that finding an entry point's file imports its package.
"""

import sys
import traceback
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import (
    cache_from_source,
    find_spec,
    module_from_spec,
    spec_from_file_location,
)
from pathlib import Path
from types import TracebackType

from memrelay import blocks
from memrelay.blocks.errors import BrokenBlock

GROUP = "memrelay.blocks"
BUILT_IN_PACKAGE = "memrelay.blocks"
FOLDER_MODULE = "memrelay_block_"  # with the file's name: the module of a file in `blocks.paths`

_folders: list[Path] = []


def use_folders(folders: Iterable[Path]) -> None:
    """Set the folders in which blocks are searched (`blocks.paths`), for the whole process."""
    _folders[:] = folders


def list_folders() -> list[Path]:
    """Return the folders in which blocks are searched."""
    return list(_folders)


@dataclass(frozen=True, slots=True)
class BlockSource:
    """The place of one block: a module, or a file of a folder if `file` is set."""

    name: str
    origin: str  # "built in", the name of a distribution, or the path of a file
    module: str
    file: Path | None = None
    attribute: str = ""  # of an entry point

    def load(self) -> None:
        """Run the file. Raises BrokenBlock."""
        with _Loading(self):
            if self.file is None:
                module = import_module(self.module)
                if self.attribute:
                    getattr(module, self.attribute)
            else:
                _run_file(self.module, self.file)

    def forget_bytecode(self) -> None:
        """Delete the compiled file, which Python also takes for a file of the same second and
        size.
        """
        if self.file is not None:
            with suppress(OSError):
                Path(cache_from_source(str(self.file))).unlink()

    @property
    def place(self) -> str:
        """Return the file for messages, with its distribution."""
        if self.file is not None:
            return str(self.file)
        if self.module.startswith(f"{BUILT_IN_PACKAGE}."):
            return f"blocks/{self.name}.py"
        return f"{self._module_file()} (distribution {self.origin})"

    def _module_file(self) -> str:
        try:
            spec = find_spec(self.module)
        except (ImportError, ValueError):  # its parent package is broken or missing
            spec = None
        return spec.origin if spec is not None and spec.origin else f"module {self.module}"


class _Loading:
    """A context that converts every exception of a block's file to BrokenBlock.

    Other people write these files. A broken one must fail only the bundles that name it.
    """

    def __init__(self, source: BlockSource) -> None:
        self._source = source

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(fault, Exception | SystemExit):
            raise _broken(self._source, fault) from fault


def built_in_source(name: str) -> BlockSource | None:
    """Return the built-in file of that name, which may be another module than a block."""
    module = f"{BUILT_IN_PACKAGE}.{name}"
    if not name.isidentifier() or find_spec(module) is None:
        return None
    return BlockSource(name, "built in", module)


def outside_sources(name: str) -> list[BlockSource]:
    """Return the entry points and files that provide a block of that name."""
    return [source for source in all_outside_sources() if source.name == name]


def all_outside_sources() -> list[BlockSource]:
    """Return the entry points, then the files of each folder by name."""
    points = [
        BlockSource(
            point.name,
            point.dist.name if point.dist is not None else "unknown",
            point.module,
            attribute=point.attr,
        )
        for point in _entry_points()
    ]
    files = [
        BlockSource(file.stem, str(file), FOLDER_MODULE + file.stem, file)
        for folder in _folders
        for file in sorted(folder.glob("*.py"))
        if file.stem.isidentifier() and not file.stem.startswith("_")
    ]
    return points + files


def built_in_names() -> list[str]:
    """Return the names of the built-in modules, which are not all blocks."""
    return sorted(file.stem for folder in blocks.__path__ for file in Path(folder).glob("[!_]*.py"))


def expected_name(module: str) -> str:
    """Return the name that a block of this module must have; "" if the module may choose."""
    package, _, file = module.rpartition(".")
    if package == BUILT_IN_PACKAGE:
        return file
    return module.removeprefix(FOLDER_MODULE) if module.startswith(FOLDER_MODULE) else ""


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))  # reads all installed distributions: about 10 ms


def _run_file(name: str, file: Path) -> None:
    spec = spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    with ExitStack() as undo:
        module = sys.modules[name] = module_from_spec(spec)
        undo.callback(sys.modules.pop, name, None)
        spec.loader.exec_module(module)
        undo.pop_all()


def _broken(source: BlockSource, fault: BaseException) -> BrokenBlock:
    place = source.place
    line = _find_line(fault, place.partition(" (")[0])
    reason = fault.msg if isinstance(fault, SyntaxError) else str(fault)
    where = f"{place}, line {line}" if line else place
    return BrokenBlock(f"{where}: {type(fault).__name__}: {reason}", f"correct {place}")


def _find_line(fault: BaseException, file: str) -> int | None:
    """Return the line of the block's file that failed or led to the failure."""
    if isinstance(fault, SyntaxError) and str(fault.filename).endswith(file):
        return fault.lineno
    frames = traceback.extract_tb(fault.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename.endswith(file)]
    return lines[-1] if lines else None
