"""A field as it is written: a name, or `data` with keys behind dots. One with a dot or a quote
stands in quotes, as in JSON."""

import re

import orjson

from memory.data import NUL

MOST_STEPS = 16
MOST_CHARACTERS = 1024
_STEP = r'"(?:[^"\\]|\\.)*"|[^."]+'
_PATH = re.compile(rf"data(?:\.(?:{_STEP}))+", re.DOTALL)
_STEPS = re.compile(rf"\.({_STEP})", re.DOTALL)


def steps_of(field: str) -> tuple[str, ...] | None:
    """The keys behind `data.`; None where it is written otherwise."""
    if len(field) > MOST_CHARACTERS or not _PATH.fullmatch(field):
        return None
    try:
        found = tuple(
            orjson.loads(step) if step[0] == '"' else step for step in _STEPS.findall(field)
        )
        "".join(found).encode()
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return None
    return found if len(found) <= MOST_STEPS and NUL not in "".join(found) else None
