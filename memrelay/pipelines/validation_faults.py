"""Reports the errors of pydantic as faults, one per place in the JSON."""

from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from memrelay.blocks.errors import BadArgument
from memrelay.pipelines.report import JsonPath, Report
from memrelay.pipelines.rules import describe_rule


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
    steps = find_location(detail)
    for count, step in enumerate(steps):
        if isinstance(value, dict) and step in value:
            value = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
        else:
            return steps[: count + (detail["type"] == "missing")]
    return steps
