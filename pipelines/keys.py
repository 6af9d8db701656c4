"""Unknown keys: kept, unless one looks like a misspelling of a known key."""

from typing import Any

from pipelines.bundle import Part
from pipelines.faults import Place, quoted
from pipelines.report import Report
from pipelines.suggestions import did_you_mean

NEAR = 0.8  # a key as close as this to a known one is a misspelling, not a key of somebody else's


def check_keys(value: dict[str, Any], part: type[Part], place: Place, report: Report) -> None:
    """Tells of keys with one of the part's prefixes, or very near to a known one, that are not
    known."""
    known = part.keys()
    for key in value.keys() - known:
        if report.full("error"):
            break
        ours = key.startswith(part.prefixes)
        question = did_you_mean(key, known) if ours else did_you_mean(key, known, NEAR)
        if ours or question:
            report.error((*place, key), f"unknown key {quoted(key)}", question)
