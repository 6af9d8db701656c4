"""`memory_id`: the path that names a store below the memory root (seed 000, "Memory ID
Convention")."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from memrelay.memory.errors import BadMemoryId

SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
FILES = re.compile(
    r"\.db[-.]|^owner\.lock$"
)  # beside stores and system.db, which a folder of such a name would stop
MOST_SEGMENTS = 8
RULE = (
    'a memory_id is a path of 2 to 8 parts below the memory root, like "instances/${pipeline_uid}/memories"; a part has '
    "letters, digits, `_`, `-` and `.`, does not begin with `.` or end with `.db`, and has at most 100 characters; no "
    "folder has the name of a file of Memrelay's own, like `x.db-wal` or `owner.lock`"
)


def check(memory_id: str) -> str:
    """The `memory_id` itself; raises BadMemoryId. One part alone is refused, since the control
    plane's files lie there."""
    if not memory_id:
        raise BadMemoryId(f"memory_id is missing: set it in wf_webhook_args; {RULE}")
    if not is_memory_id(memory_id):
        raise BadMemoryId(f"memory_id {memory_id[:200]!r} is not allowed: {RULE}")
    return memory_id


def is_memory_id(text: str) -> bool:
    """Whether the rule holds."""
    parts = text.split("/")
    return (
        2 <= len(parts) <= MOST_SEGMENTS
        and all(_allowed(part) for part in parts)
        and not any(FILES.search(folder) for folder in parts[:-1])
    )


def _allowed(part: str) -> bool:
    return SEGMENT.fullmatch(part) is not None and not part.endswith(".db")


def stores_below(root: Path, folder: str = "") -> list[str]:
    """The `memory_id` of every store in a folder of the memory root, behind symbolic links too;
    what is somebody else's file is
    left out. Raises OSError where a folder cannot be looked into.
    """
    files = sorted(file for file in _files(root / folder) if file.suffix == ".db")
    return [
        name
        for file in files
        if is_memory_id(name := str(file.relative_to(root)).removesuffix(".db"))
    ]


def _files(folder: Path) -> Iterator[Path]:
    """Each folder is looked into once, however many links lead to it, and before them."""
    seen = set[str]()
    for at, folders, names in os.walk(folder, followlinks=True, onerror=_raise):
        if (real := os.path.realpath(at)) in seen:
            folders.clear()
            continue
        seen.add(real)
        links = {name for name in folders if os.path.islink(os.path.join(at, name))}
        folders.sort(key=links.__contains__)
        yield from (Path(at, name) for name in names)


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # one that goes meanwhile
        raise error


def path_of(root: Path, memory_id: str) -> Path:
    """The store's file. Allowed parts cannot leave the root, symbolic links set by the machine's
    owner aside."""
    return root / (check(memory_id) + ".db")
