"""`${pipeline_uid}`: replaced in every string of a bundle. Keys stay as they are."""

import re
import secrets
from typing import Any

from memrelay.bus.keys import PUBLIC, UID
from memrelay.pipelines.report import Place, Report, did_you_mean, quoted

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


# A pipeline's uid: given, or the bundle's own, or made (8 hex digits).

PLACE = ("pipeline_uid",)


def choose(given: str | None, bundle: dict[str, Any], report: Report) -> str:
    """The uid. A wrong one is told and another made, so that nothing else seems wrong because of
    it."""
    own = bundle.get("pipeline_uid")
    wanted = own if given is None else given
    if wanted in (None, "", TOKEN):
        return secrets.token_hex(4)
    if not isinstance(wanted, str):
        report.error(PLACE, "must be a string")
    elif wanted == PUBLIC:
        report.error(
            PLACE,
            f'the uid "{PUBLIC}" is taken by public swarms',
            "choose another, or leave it out",
        )
    elif not UID.fullmatch(wanted):
        report.error(
            PLACE, "a uid has 1 to 64 letters, digits, `_` and `-`", "leave it out to have one made"
        )
    else:
        return wanted
    return secrets.token_hex(4)
