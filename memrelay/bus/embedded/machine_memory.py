"""The memory of the machine or of the container, from which limits follow."""

import os
from pathlib import Path

# Limits of a container, of cgroup version 2 and 1. A file holds bytes, or "max" for no limit.
CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
# The rest is for workers, web servers and the cache of files.
SERVER_SHARE = 0.5


def memory_bytes() -> int:
    """Return the memory of the machine, or of the container if that is less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *filter(None, map(_read_limit, CGROUP_LIMITS))])


def server_memory_limit() -> int:
    """Return the embedded server's `maxmemory` in bytes: half of the memory."""
    return int(SERVER_SHARE * memory_bytes())


def _read_limit(file: Path) -> int:
    """Return the limit in bytes, or 0 if there is none."""
    try:
        text = file.read_text().strip()
    except OSError:
        return 0
    return int(text) if text.isdigit() else 0
