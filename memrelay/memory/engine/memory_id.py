"""Validate `memory_id`, the path that names a store below the memory root (seed 000, "Memory ID
Convention").
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from memrelay.memory.errors import BadMemoryId

SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
# Names of files next to stores and system.db. A folder with such a name would block them.
RESERVED_NAMES = re.compile(r"\.db[-.]|^owner\.lock$")
MAX_SEGMENTS = 8
# Names of the stores in a pipeline's folder that belong to a memory model.
BUILT_IN_STORES = ("memories", "stores", "recipes", "langgraph", "endpoints")
# Built-in stores whose records only their own operations reach, since these check the access.
CLOSED_STORE = re.compile(r"instances/[^/]+/stores")
RULE = (
    "a memory_id is a path of 2 to 8 parts below the memory root, like "
    '"instances/${pipeline_uid}/memories"; a part has letters, digits, `_`, `-` and `.`, does '
    "not begin with `.` or end with `.db`, and has at most 100 characters; no folder has the "
    "name of a Memrelay file, like `x.db-wal` or `owner.lock`"
)


def check(memory_id: str) -> str:
    """Return the `memory_id` if it is valid. Raises BadMemoryId.

    A path of one part is invalid because the control plane's files are at that level.
    """
    if not memory_id:
        raise BadMemoryId(f"memory_id is missing: set it in wf_webhook_args; {RULE}")
    if not is_memory_id(memory_id):
        raise BadMemoryId(f"memory_id {memory_id[:200]!r} is not allowed: {RULE}")
    return memory_id


def is_memory_id(text: str) -> bool:
    """Return whether `text` is a valid `memory_id`."""
    parts = text.split("/")
    return (
        2 <= len(parts) <= MAX_SEGMENTS
        and all(_is_valid_segment(part) for part in parts)
        and not any(RESERVED_NAMES.search(folder) for folder in parts[:-1])
    )


def built_in_store(uid: str, name: str = "memories") -> str:
    """Return the memory_id of a built-in store of a pipeline."""
    return f"instances/{uid}/{name}"


def built_in_name(memory_id: str) -> str:
    """Return which built-in store of its pipeline a store is, "" if it is none."""
    top, _, rest = memory_id.partition("/")
    name = rest.partition("/")[2]
    return name if top == "instances" and name in BUILT_IN_STORES else ""


def is_closed(memory_id: str) -> bool:
    """Return whether a store is a closed store, of any pipeline."""
    return CLOSED_STORE.fullmatch(memory_id) is not None


def _is_valid_segment(part: str) -> bool:
    return SEGMENT.fullmatch(part) is not None and not part.endswith(".db")


def list_stores(root: Path, folder: str = "") -> list[str]:
    """Return the sorted `memory_id` of every store in a folder of the memory root.

    Symbolic links are followed. Files with other names are skipped. Raises OSError if a folder
    cannot be read.
    """
    files = sorted(file for file in _walk_files(root / folder) if file.suffix == ".db")
    return [
        name
        for file in files
        if is_memory_id(name := str(file.relative_to(root)).removesuffix(".db"))
    ]


def _walk_files(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder.

    Each folder is visited once, even if several links lead to it. Real folders are visited before
    links.
    """
    seen = set[str]()
    for at, folders, names in os.walk(folder, followlinks=True, onerror=_raise_unless_missing):
        if (real := os.path.realpath(at)) in seen:
            folders.clear()
            continue
        seen.add(real)
        links = {name for name in folders if os.path.islink(os.path.join(at, name))}
        folders.sort(key=links.__contains__)
        yield from (Path(at, name) for name in names)


def _raise_unless_missing(error: OSError) -> None:
    # The folder was removed during the walk.
    if not isinstance(error, FileNotFoundError):
        raise error


def store_path(root: Path, memory_id: str) -> Path:
    """Return the path of a store's file. Raises BadMemoryId.

    Valid parts cannot leave the root, except through symbolic links that the machine's owner
    created.
    """
    return root / (check(memory_id) + ".db")
