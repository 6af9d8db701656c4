"""The file with the counts, and how measured costs are compared with it."""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.guard.measure import SIZES, Costs
from tests.support.child import CHECKOUT

FILE = Path(__file__).with_name("counts.toml")
COLUMNS = [f"{kind} {size}" for kind in ("write", "search") for size in SIZES]
# Counts that depend on the version of Python; the others hold for every version.
OF_PYTHON = ("calls ", "blocks")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
EVERY_PYTHON = "every"
# Runs differ by up to 70 blocks, whatever the size of the batch.
BLOCKS_SHARE, BLOCKS_LEAST = 0.03, 100
UPDATE = "python -m tests.guard.update"
HEAD = """\
# What one batch of messages costs: tests/guard/README.md explains it.
# `base` is the cost at b8e3a7c3, `now` that of this commit. The columns are
# {columns}.
# Where `now` is above `base`, `reason` says why.
"""


@dataclass(slots=True)
class Row:
    """A count in each column."""

    base: list[int] = field(default_factory=lambda: [0] * len(COLUMNS))
    now: list[int] = field(default_factory=lambda: [0] * len(COLUMNS))
    reason: str = ""

    @property
    def is_raised(self) -> bool:
        """Whether some count is above that of the base."""
        return any(now > base for base, now in zip(self.base, self.now, strict=True))


# By the version of Python or EVERY_PYTHON, then by the name of the count.
Counts = dict[str, dict[str, Row]]


def section_of(name: str) -> str:
    """Return the section of the file that has a count."""
    return PYTHON if name.startswith(OF_PYTHON) else EVERY_PYTHON


def read_counts() -> Counts:
    """Return the contents of the file."""
    if not FILE.exists():
        return {}
    return {
        section: {name: Row(**row) for name, row in rows.items()}
        for section, rows in tomllib.loads(FILE.read_text()).items()
    }


def write_counts(counts: Counts) -> None:
    """Write the file."""
    lines = [HEAD.format(columns=", ".join(COLUMNS))]
    for section, rows in sorted(counts.items()):
        for name, row in sorted(rows.items()):
            lines.append(f'["{section}"."{name}"]\nbase = {row.base}\nnow  = {row.now}')
            if row.is_raised:
                lines.append(f"reason = {json.dumps(row.reason, ensure_ascii=False)}")
            lines.append("")
    FILE.write_text("\n".join(lines))


def update_counts(counts: Counts, costs: Costs) -> list[str]:
    """Put measured costs into the counts. Return the names of the rows that need a reason.

    A row that is raised again needs a new reason. The first costs of a version of Python are also
    its base.
    """
    for section in (EVERY_PYTHON, PYTHON):
        is_first = section not in counts
        rows = counts.setdefault(section, {})
        for name in {*rows, *_names(costs, section)}:
            row = rows.setdefault(name, Row())
            measured = [costs[column].get(name, 0) for column in COLUMNS]
            if is_first:
                row.base = measured
            if any(_compare(name, *pair) > 0 for pair in zip(row.now, measured, strict=True)):
                row.reason = ""
            if any(_compare(name, *pair) for pair in zip(row.now, measured, strict=True)):
                row.now = measured
            if not any(row.base + row.now):
                del rows[name]
    return [name for rows in counts.values() for name, row in rows.items() if lacks_reason(row)]


def lacks_reason(row: Row) -> bool:
    """Return whether a row is raised without a word about why."""
    return row.is_raised and not row.reason.strip()


def find_differences(counts: Counts, costs: Costs, section: str) -> Iterator[str]:
    """Yield a line for each count that differs from the file."""
    rows = counts[section]
    for name in sorted({*rows, *_names(costs, section)}):
        row = rows.get(name, Row())
        for column, expected in zip(COLUMNS, row.now, strict=True):
            if column not in costs:
                continue
            count = costs[column].get(name, 0)
            if difference := _compare(name, expected, count):
                direction = "higher" if difference > 0 else "lower"
                each = difference / int(column.split()[1])
                yield (
                    f"{direction}: {name} of {column} is {count} instead of {expected} "
                    f"({each:+.2f} per message)"
                )


def find_unlocked() -> list[str]:
    """Return the packages whose versions are not those of the lock file."""
    locked: dict[str, set[str]] = {}
    for line in (CHECKOUT / "requirements.lock").read_text().splitlines():
        if match := re.match(r"([\w.-]+)==([^\s;\\]+)", line):
            # There may be one version for each range of Python versions.
            locked.setdefault(match[1], set()).add(match[2])
    return [name for name, versions in locked.items() if _installed(name) not in {None, *versions}]


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _names(costs: Costs, section: str) -> set[str]:
    return {name for cost in costs.values() for name in cost if section_of(name) == section}


def _compare(name: str, expected: int, count: int) -> int:
    """Return the difference, 0 if it does not matter."""
    difference = count - expected
    is_close = abs(difference) <= max(BLOCKS_SHARE * expected, BLOCKS_LEAST)
    return 0 if name == "blocks" and is_close else difference
