"""Decide how many store files a worker may have open, by the limit of handles and the memory."""

import os
import resource
from contextlib import suppress
from pathlib import Path

# Handles of an open store, and those that a process needs besides its stores.
HANDLES_PER_STORE, OTHER_HANDLES = 3, 128
# What an open store costs, and the part of the memory that all stores together may take.
STORE_BYTES, MEMORY_PART = 200_000, 8
# More handles are never requested (cli/process.py raises the soft limit).
WANTED_HANDLES = 65_536
# The memory limit of a container.
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def resolve_open_files(configured: int) -> int:
    """Return `memory.open_files`; for 0, the number that the handles and the memory allow."""
    return configured or max(
        1, min(fitting_stores(), _memory_bytes() // MEMORY_PART // STORE_BYTES)
    )


def fitting_stores() -> int:
    """Return how many open stores fit the hard limit of open files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    handles = WANTED_HANDLES if hard == resource.RLIM_INFINITY else min(WANTED_HANDLES, hard)
    return max(1, (handles - OTHER_HANDLES) // HANDLES_PER_STORE)


def _memory_bytes() -> int:
    """Return the memory of the machine, or of the container if that is less."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no container, or "max"
        found = min(found, int(CGROUP_LIMIT.read_text()))
    return found
