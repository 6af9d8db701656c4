"""Unknown keys: kept, unless one looks like a misspelling of a known key."""

from typing import Any

from memory.suggestions import closest
from pipelines.bundle import Part
from pipelines.faults import Place, quoted
from pipelines.report import Report
from pipelines.suggestions import NEAR


def check_keys(value: dict[str, Any], part: type[Part], place: Place, report: Report) -> None:
    """Tells of keys with one of the part's prefixes, or very near to a known one, that are not known."""
    known = part.keys()
    for key in value.keys() - known:
        if report.full("error"):
            break
        ours = key.startswith(part.prefixes)
        near = closest(key, known) if ours else closest(key, known, NEAR)
        if ours or near:
            report.error((*place, key), f"unknown key {quoted(key)}", f"did you mean {quoted(near)}?" if near else "")
