"""Ownership: a memory root has one worker at a time, held by a file lock that ends with its process.

This is the place where leases and epochs will stand when several workers share the pipelines of a bus.
"""
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NotTheOwner(Exception):
    """Another worker owns this memory root."""


@contextmanager
def own(memory_root: Path) -> Iterator[None]:
    """Holds the lock of a memory root. Raises NotTheOwner at once where another process has it."""
    memory_root.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(memory_root / "owner.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NotTheOwner(f"another worker serves {memory_root}; stop it, or set memory.root to another folder") from error
        yield
    finally:
        os.close(descriptor)
