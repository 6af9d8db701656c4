"""The state of processes on Linux."""

from pathlib import Path


def is_alive(pid: int) -> bool:
    """Return whether there is such a process that has not ended. A zombie has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # it may end between the two reads
        return False
    return state != "Z"
