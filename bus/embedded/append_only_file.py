"""The append-only file of a data folder: several files, and a manifest that names those that count.

A server that finds no manifest begins with nothing, and one that is cut at the end of a line leaves
files out. Either goes on
without a word, and what was acknowledged is gone as soon as it writes its own.
"""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from memrelay.bus.errors import AppendOnlyFileLeft

FOLDER, MANIFEST = "appendonlydir", "appendonly.aof.manifest"

_PART = re.compile(r"appendonly\.aof\.(\d+)\.(base|incr)\.(?:aof|rdb)")
_NAMED = re.compile(r"^file (\S+) seq \d+ type [bhi]\b", re.MULTILINE)


class _Part(NamedTuple):
    """One of the files. They sort as a manifest has them: a base, then in their order what was
    written after it."""

    kind: str  # base or incr
    number: int
    path: Path

    @property
    def line(self) -> str:
        """Its line in a manifest."""
        return f"file {self.path.name} seq {self.number} type {self.kind[0]}"


def manifest_of(data_folder: Path) -> Path:
    """The manifest, whether it is there or not."""
    return data_folder / FOLDER / MANIFEST


def refuse_left_out(data_folder: Path) -> None:
    """Raises AppendOnlyFileLeft where a server would begin without a file that has something in
    it."""
    manifest = manifest_of(data_folder)
    named = _NAMED.findall(manifest.read_text(errors="replace")) if manifest.exists() else []
    parts = _parts(manifest.parent)
    # A rewrite that was cut short leaves a base that no manifest names, and that has nothing of its
    # own.
    left = [
        part
        for part in parts
        if part.path.name not in named
        and (part.kind == "incr" or not named)
        and part.path.stat().st_size
    ]
    if left:
        raise AppendOnlyFileLeft(_told(data_folder, left[0], parts))


def _parts(folder: Path) -> list[_Part]:
    found = [(file, _PART.fullmatch(file.name)) for file in folder.glob("*")]
    return sorted(
        _Part(match[2], int(match[1]), file) for file, match in found if match is not None
    )


def _told(data_folder: Path, left: _Part, parts: Sequence[_Part]) -> str:
    manifest = manifest_of(data_folder)
    fault = f"does not name {left.path.name}" if manifest.exists() else "is gone"
    bases = [
        part for part in parts if part.kind == "base"
    ]  # of two the older one, for its files go before what follows it
    lines = [part.line for part in parts if part not in bases[1:]]
    write = f"printf '%s\\n' {' '.join(map(shlex.quote, lines))} > {shlex.quote(str(manifest))}"
    return (
        f"{manifest} {fault}, and the embedded server would begin without what was acknowledged: put it back from a copy. "
        f"Where there is none copy {data_folder}, then run: {write}\n"
        f"Or move {manifest.parent} away: what waited is lost, records are in the stores and stay"
    )
