"""Pydantic's validation errors in the words of JSON, and as faults, one per place in the JSON."""

import re
from typing import Any

from pydantic_core import ErrorDetails, ValidationError

from memrelay.blocks.errors import BadArgument
from memrelay.pipelines.report import JsonPath, Report

MAX_ERRORS = 20  # in one line
OBJECT = "object"  # the tag of an object, where a text is allowed too
# "Input should be", "String should have", "Tuple should have"
_SHOULD = re.compile(r"\A\w+ should (?=be |have |match )")
_PLAIN = {
    "missing": "is missing",
    "unexpected_keyword_argument": "is no field of it",
    "extra_forbidden": "is no known key",
}
_OBJECT, _LIST = "a valid dictionary", re.compile(r"a valid (?:array|list|tuple|set)\b")


def describe_rule(detail: ErrorDetails) -> str:
    """Return the rule that an input breaks."""
    if detail["type"] in _PLAIN:
        return _PLAIN[detail["type"]]
    text = _SHOULD.sub("must ", detail["msg"].removeprefix("Value error, ")).replace(
        " after validation, not ", ", not "
    )
    return _LIST.sub("a list", text.replace(_OBJECT, "an object"))


def in_a_line(error: ValidationError) -> str:
    """Return all faults of an input on one line, each with its place."""
    details = error.errors(include_url=False)[:MAX_ERRORS]
    return "; ".join(
        [
            f"{'.'.join(map(str, one['loc'])) or 'the input'}: {describe_rule(one)}"
            for one in details
        ]
    )


def report_validation_error(
    error: ValidationError, value: dict[str, Any], path: JsonPath, report: Report
) -> None:
    """Report pydantic's errors. The errors of one place, one for each type, become one fault."""
    rules: dict[JsonPath, list[str]] = {}
    details = error.errors(include_url=False, include_input=False)
    for detail in details:
        if detail["type"] == "too_short" and _has_invalid_items(detail, details):
            # Pydantic counts only the valid items of a list.
            continue
        rules.setdefault((*path, *_find_json_path(value, detail)), []).append(describe_rule(detail))
    for at, broken in rules.items():
        report.error(at, ", or ".join(dict.fromkeys(broken)))


def _has_invalid_items(detail: ErrorDetails, details: list[ErrorDetails]) -> bool:
    count = len(detail["loc"])
    return any(len(one["loc"]) > count and one["loc"][:count] == detail["loc"] for one in details)


def find_location(detail: ErrorDetails) -> JsonPath:
    """Return pydantic's location of an error, or the argument that a validator names."""
    error = detail.get("ctx", {}).get("error")
    return detail["loc"] or ((error.argument,) if isinstance(error, BadArgument) else ())


def _find_json_path(value: Any, detail: ErrorDetails) -> JsonPath:
    """Return the place in the JSON. Pydantic's location also contains alternatives of a type."""
    path: JsonPath = ()
    steps = find_location(detail)
    for count, step in enumerate(steps):
        if isinstance(value, dict) and step in value:
            value = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
        elif step == OBJECT:
            continue
        else:
            return (*path, *steps[count : count + (detail["type"] == "missing")])
        path = (*path, step)
    return path
