"""Erasures of a test: their end, and the files that still hold a word."""

from pathlib import Path

from tests.support.calls import call
from tests.support.system import TestSystem
from tests.support.waiting import wait_for


def files_with(system: TestSystem, word: bytes) -> list[str]:
    """Return the files of the memory root and the bus that contain a word, ignoring case."""
    found = []
    for folder in (system.root, system.folder / "bus"):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and word in _read(path).lower():
                found.append(str(path.relative_to(system.folder)))
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # the server renames its files
        return b""


def await_erasure(system: TestSystem, uid: str) -> dict[str, object]:
    """Wait until the last erasure is complete, and return it."""

    def ended() -> bool:
        items = call(system, uid, "records.erasures")["items"]
        return bool(items) and all(one["ended_at"] for one in items)

    wait_for(ended, "it is gone everywhere")
    return call(system, uid, "records.erasures")["items"][0]
