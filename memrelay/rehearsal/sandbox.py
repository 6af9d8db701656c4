"""What a process gives up that runs bundles of other people."""

import os
import resource
import sys
from typing import Any

REFUSED_EVENTS = ("socket.", "subprocess.", "os.exec", "os.posix_spawn", "os.fork", "os.system")


def enter_sandbox(memory_bytes: int, processor_s: int, file_bytes: int, *, niceness: int) -> None:
    """Limit the address space, the processor time of the whole process and the size of its files.
    From now on it can open no socket and start no program.
    """
    os.nice(niceness)
    for kind, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, processor_s),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    sys.addaudithook(_refuse)


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    if event.startswith(REFUSED_EVENTS):
        raise PermissionError(f"this process may not use {event}")
