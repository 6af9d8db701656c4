"""Reads the objects of a bundle as models, key by key, so that an invalid key hides no other."""

from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from memrelay.pipelines.bundle import AgentSpec, Bundle, Part, StoreSpec, SwarmSpec
from memrelay.pipelines.report import JsonPath, Report, did_you_mean, quoted
from memrelay.pipelines.validation_faults import report_validation_error

# An unknown key this similar to a known one is a misspelling, not a key of another program.
NEAR = 0.8
MAX_ENTRIES = 1000  # of a list

SomePart = TypeVar("SomePart", bound=Part)


class BundleParts(NamedTuple):
    """A bundle without its lists, and the objects of these lists by index."""

    bundle: Bundle
    agents: dict[int, AgentSpec]
    swarms: dict[int, SwarmSpec]
    stores: dict[int, StoreSpec]


def read_bundle(value: dict[str, Any], report: Report) -> BundleParts:
    """Return the bundle and its parts."""
    lists = ("agents", "swarms", "stores")
    head = {key: inner for key, inner in value.items() if key not in lists}
    check_keys(value, Bundle, (), report)
    if value.get("agents") is None:
        report.error(("agents",), "a bundle needs agents", "add a list of them")
    return BundleParts(
        read_part(Bundle, head, (), report),
        read_parts(AgentSpec, value.get("agents"), ("agents",), report),
        read_parts(SwarmSpec, value.get("swarms"), ("swarms",), report),
        read_parts(StoreSpec, value.get("stores"), ("stores",), report),
    )


def check_keys(value: dict[str, Any], part: type[Part], path: JsonPath, report: Report) -> None:
    """Report unknown keys with a reserved prefix, or with a name close to a known key.

    Other unknown keys are kept.
    """
    known = part.keys()
    for key in value.keys() - known:
        if report.full("error"):
            break
        is_reserved = key.startswith(part.prefixes)
        suggestion = did_you_mean(key, known) if is_reserved else did_you_mean(key, known, NEAR)
        if is_reserved or suggestion:
            report.error((*path, key), f"unknown key {quoted(key)}", suggestion)


def read_parts(
    part: type[SomePart], value: object, path: JsonPath, report: Report
) -> dict[int, SomePart]:
    """Return the objects of a list by index. Other items are reported."""
    if value is not None and not isinstance(value, list):
        report.error(path, "must be a list of objects")
        return {}
    parts = {}
    for at, item in enumerate(value or ()):
        if at == MAX_ENTRIES:
            rule = f"has at most {MAX_ENTRIES} entries"
            report.error(path, rule, "split it into several pipelines")
            break
        if isinstance(item, dict):
            check_keys(item, part, (*path, at), report)
            parts[at] = read_part(part, item, (*path, at), report)
        else:
            report.error((*path, at), "must be an object")
    return parts


def read_part(
    part: type[SomePart], value: dict[str, Any], path: JsonPath, report: Report
) -> SomePart:
    """Return the object as a model. An invalid key is reported and gets its default."""
    try:
        return part.model_validate(value)
    except ValidationError as error:
        report_validation_error(error, value, path, report)
        invalid = {detail["loc"][0] for detail in error.errors()}
        valid = {key: inner for key, inner in value.items() if key not in invalid}
        return part.model_validate(valid)
