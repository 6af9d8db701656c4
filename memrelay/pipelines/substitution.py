"""`${pipeline_uid}` and the choice of a UID. The token is replaced in strings, not in keys."""

import re
import secrets
from typing import Any

from memrelay.bus.keys import PUBLIC, UID
from memrelay.pipelines.report import JsonPath, Report, did_you_mean, quoted

NAME = "pipeline_uid"
TOKEN = "${pipeline_uid}"
PLACE = ("pipeline_uid",)
# The argument of the block `recipe` whose strings have variables.
RECIPE = "definition"
_ANY_TOKEN = re.compile(r"\$\{([^{}]*)\}")


def fill(value: Any, uid: str, report: Report, path: JsonPath = ()) -> Any:
    """Return a copy with the UID instead of the token. Other tokens are kept with a warning."""
    if isinstance(value, dict):
        return {key: fill(inner, uid, report, (*path, key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill(inner, uid, report, (*path, at)) for at, inner in enumerate(value)]
    return _fill_text(value, uid, report, path) if isinstance(value, str) else value


def choose_uid(given: str | None, bundle: dict[str, Any], report: Report) -> str:
    """Return `given`, or the bundle's UID, or 8 random hex digits.

    An invalid UID is reported and replaced by a random one, so that it causes no other faults.
    """
    wanted = bundle.get("pipeline_uid") if given is None else given
    if wanted in (None, "", TOKEN):
        return secrets.token_hex(4)
    if not isinstance(wanted, str):
        report.error(PLACE, "must be a string")
    elif wanted == PUBLIC:
        rule = f'the UID "{PUBLIC}" is reserved for public swarms'
        report.error(PLACE, rule, "choose another, or leave it out")
    elif not UID.fullmatch(wanted):
        rule = "a UID has 1 to 64 letters, digits, `_` and `-`"
        report.error(PLACE, rule, "leave it out to have one generated")
    else:
        return wanted
    return secrets.token_hex(4)


def _fill_text(text: str, uid: str, report: Report, path: JsonPath) -> str:
    # Repeat, since a UID may complete a token around it: filling twice must change nothing.
    while TOKEN in text:
        text = text.replace(TOKEN, uid)
    for name in dict.fromkeys(_ANY_TOKEN.findall(text)):
        hint = did_you_mean(name, (NAME,))
        if hint or RECIPE not in path:
            rule = f"{quoted('${' + name + '}')} is not replaced: {TOKEN} is the only token"
            report.warn(path, rule, hint)
    return text
