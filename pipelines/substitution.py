"""`${pipeline_uid}`: replaced in every string of a bundle. Keys stay as they are."""

import re
from typing import Any

from pipelines.faults import Place, quoted
from pipelines.report import Report
from pipelines.suggestions import did_you_mean

NAME = "pipeline_uid"
TOKEN = "${pipeline_uid}"
_ANY_TOKEN = re.compile(r"\$\{([^{}]*)\}")


def fill(value: Any, uid: str, report: Report, place: Place = ()) -> Any:
    """A copy with the uid in place of the token; any other token is kept, with a warning."""
    if isinstance(value, dict):
        return {key: fill(held, uid, report, (*place, key)) for key, held in value.items()}
    if isinstance(value, list):
        return [fill(held, uid, report, (*place, at)) for at, held in enumerate(value)]
    return _fill_text(value, uid, report, place) if isinstance(value, str) else value


def _fill_text(text: str, uid: str, report: Report, place: Place) -> str:
    while (
        TOKEN in text
    ):  # again, since a uid may complete a token around it: filling twice must change nothing
        text = text.replace(TOKEN, uid)
    for name in dict.fromkeys(_ANY_TOKEN.findall(text)):
        rule = f"{quoted('${' + name + '}')} is not replaced: {TOKEN} is the only token"
        report.warn(place, rule, did_you_mean(name, (NAME,)))
    return text
