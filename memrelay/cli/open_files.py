"""Decide how many store files a worker may have open, by the limit of handles and the memory."""

import resource

from memrelay.bus.embedded.machine_memory import memory_bytes

# Handles of an open store, and those that a process needs besides its stores.
HANDLES_PER_STORE, OTHER_HANDLES = 3, 128
# Handles for the connections of a web server in the same process: at most this part of all.
WEB_HANDLES, WEB_PART = 2_000, 4
# The memory of an open store, and the part of the memory that all stores together may take.
STORE_BYTES, MEMORY_PART = 350_000, 8
# More handles are never requested (memrelay/cli/process.py raises the soft limit).
WANTED_HANDLES = 65_536


def resolve_open_files(configured: int | None) -> int:
    """Return `memory.open_files`; for None, the number that the handles and the memory allow."""
    return configured or max(1, min(fitting_stores(), memory_bytes() // MEMORY_PART // STORE_BYTES))


def fitting_stores() -> int:
    """Return how many open stores fit the hard limit of open files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    handles = WANTED_HANDLES if hard == resource.RLIM_INFINITY else min(WANTED_HANDLES, hard)
    others = OTHER_HANDLES + min(WEB_HANDLES, handles // WEB_PART)
    return max(1, (handles - others) // HANDLES_PER_STORE)
