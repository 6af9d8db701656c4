"""The memory of the machine or of the container, from which the server's limit follows."""

import os
from pathlib import Path

# Limits of a container, of cgroup version 2 and 1. A file holds bytes, or "max" for no limit.
CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
# The rest is for workers, web servers and the cache of files.
SERVER_SHARE = 0.5


def server_memory_limit() -> int:
    """Return the embedded server's `maxmemory` in bytes: half of the memory."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(SERVER_SHARE * min([physical, *filter(None, map(_read_limit, CGROUP_LIMITS))]))


def _read_limit(file: Path) -> int:
    """Return the limit in bytes, or 0 if there is none."""
    try:
        text = file.read_text().strip()
    except OSError:
        return 0
    return int(text) if text.isdigit() else 0
