"""The idle checkpoint of a pipeline: the owner's proof that nothing is pending in its stores.

The owner writes it on the bus when the pipeline is idle and its store files are closed. As long as
the files, the bundle and the input are the same, a later owner need not open the stores before
the first message.
"""

import os
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from memrelay.memory.engine.damage import note_of
from memrelay.memory.engine.memory_id import store_path
from memrelay.pipelines.plan import Plan


class IdleCheckpoint(msgspec.Struct, frozen=True):
    """The state that the next owner needs.

    `files` has the state of each store's file, "" if it does not exist. Something expires at
    `due_ms` (Unix ms), None for never. `wanted` are stores that need vectors, `fingerprints` those
    of the searched vectors, and `embedder` is the configured one. `epoch` is that of the owner.
    """

    bundle: str
    files: dict[str, str]
    due_ms: int | None
    wanted: list[str]
    fingerprints: dict[str, str]
    embedder: str
    epoch: int = 0


def parse_checkpoint(data: bytes | None) -> IdleCheckpoint | None:
    """Return the checkpoint in a reply of the server; None for none and for a malformed one."""
    try:
        return msgspec.json.decode(data, type=IdleCheckpoint) if data else None
    except msgspec.DecodeError:
        return None


def pack_checkpoint(checkpoint: IdleCheckpoint) -> bytes:
    """Return the checkpoint as JSON."""
    return msgspec.json.encode(checkpoint)


def is_valid(checkpoint: IdleCheckpoint, plan: Plan, root: Path) -> bool:
    """Return whether the bundle and all files are those of the checkpoint."""
    return checkpoint.bundle == plan.hash and checkpoint.files == describe_files(
        root, plan.all_stores
    )


def describe_files(root: Path, names: Collection[str]) -> dict[str, str] | None:
    """Return the state of each store's file; None if one may be open for writes or damaged."""
    found = {name: _describe_file(store_path(root, name)) for name in names}
    return None if None in found.values() else {name: state or "" for name, state in found.items()}


def merge_checkpoints(checkpoints: Iterable[IdleCheckpoint]) -> IdleCheckpoint | None:
    """Return one checkpoint for a group of pipelines; None if there are none."""
    merged: IdleCheckpoint | None = None
    for checkpoint in checkpoints:
        merged = checkpoint if merged is None else _merge(merged, checkpoint)
    return merged


def _merge(one: IdleCheckpoint, other: IdleCheckpoint) -> IdleCheckpoint:
    due_ms = [due for due in (one.due_ms, other.due_ms) if due is not None]
    return IdleCheckpoint(
        "",
        one.files | other.files,
        min(due_ms, default=None),
        [*one.wanted, *other.wanted],
        one.fingerprints | other.fingerprints,
        one.embedder,
    )


def _describe_file(path: Path) -> str | None:
    """Return the inode, size and time of a file without a log; None if it has a log or a note."""
    if note_of(path).exists():
        return None
    try:
        if os.stat(f"{path}-wal").st_size:
            return None
    except FileNotFoundError:
        pass
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return ""
    return f"{found.st_ino}.{found.st_size}.{found.st_mtime_ns}"
