"""The names of backups in an object store: the UTC times of their starts."""

import re
import time
from collections.abc import Sequence
from datetime import datetime

NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z")


def name_of(made_at: int) -> str:
    """Return the name of a backup that began at that time (Unix ms)."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(made_at / 1000))


def parse_name(name: str) -> datetime:
    """Return the time in a name."""
    return datetime.strptime(name, "%Y%m%dT%H%M%S%z")


def choose_surplus(names: Sequence[str], days: int, weeks: int) -> list[str]:
    """Return the backups to delete. `names` are sorted.

    Of each of the last `days` days and `weeks` weeks that have backups, the newest one stays, and
    so does the newest of all.
    """
    kept = set(names[-1:])
    for count, period in ((days, "%Y-%m-%d"), (weeks, "%G-%V")):
        newest = {parse_name(name).strftime(period): name for name in names}
        kept.update(list(newest.values())[::-1][:count])
    return [name for name in names if name not in kept]
