"""File handles: each listener takes one, each open store three, and a shell's usual limit is
1,024."""

import resource
from contextlib import suppress

WANTED = 65_536


def raise_handle_limit() -> None:
    """To as many as the system lets this process have, up to WANTED."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # macOS allows less than its hard limit says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
