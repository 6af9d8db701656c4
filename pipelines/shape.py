"""Shape: a bundle's objects read as models, key by key, so that one wrong key hides nothing
else."""

from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from memrelay.blocks.errors import BadArgument
from memrelay.pipelines.bundle import AgentSpec, Bundle, Part, StoreSpec, SwarmSpec
from memrelay.pipelines.report import Place, Report, did_you_mean, quoted
from memrelay.pipelines.rules import rule_of

# Unknown keys: kept, unless one looks like a misspelling of a known key.

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


MOST_ENTRIES = 1000  # of a list

SomePart = TypeVar("SomePart", bound=Part)


class Read(NamedTuple):
    """The bundle without its lists of objects, and what these hold, by places."""

    bundle: Bundle
    agents: dict[int, AgentSpec]
    swarms: dict[int, SwarmSpec]
    stores: dict[int, StoreSpec]


def read_bundle(value: dict[str, Any], report: Report) -> Read:
    """The bundle and its parts."""
    head = {key: held for key, held in value.items() if key not in ("agents", "swarms", "stores")}
    check_keys(value, Bundle, (), report)
    if value.get("agents") is None:
        report.error(("agents",), "a bundle needs agents", "add a list of them")
    return Read(
        read_part(Bundle, head, (), report),
        read_parts(AgentSpec, value.get("agents"), ("agents",), report),
        read_parts(SwarmSpec, value.get("swarms"), ("swarms",), report),
        read_parts(StoreSpec, value.get("stores"), ("stores",), report),
    )


def read_parts(
    part: type[SomePart], value: object, place: Place, report: Report
) -> dict[int, SomePart]:
    """Those of a list that are objects, by their places."""
    if value is not None and not isinstance(value, list):
        report.error(place, "must be a list of objects")
        return {}
    found = {}
    for at, held in enumerate(value or ()):
        if at == MOST_ENTRIES:
            report.error(
                place, f"has at most {MOST_ENTRIES} entries", "split it into several pipelines"
            )
            break
        if isinstance(held, dict):
            check_keys(held, part, (*place, at), report)
            found[at] = read_part(part, held, (*place, at), report)
        else:
            report.error((*place, at), "must be an object")
    return found


def read_part(
    part: type[SomePart], value: dict[str, Any], place: Place, report: Report
) -> SomePart:
    """The part. A wrong key is told and then taken as absent; every key of a part has a default."""
    try:
        return part.model_validate(value)
    except ValidationError as error:
        tell(error, value, place, report)
        wrong = {told["loc"][0] for told in error.errors()}
        return part.model_validate({key: held for key, held in value.items() if key not in wrong})


def tell(error: ValidationError, value: dict[str, Any], place: Place, report: Report) -> None:
    """Pydantic's errors as ours; what it says of one place (of each type that would do) becomes one
    fault."""
    rules: dict[Place, list[str]] = {}
    for told in error.errors(include_url=False, include_input=False):
        rules.setdefault((*place, *_inside(value, told)), []).append(rule_of(told))
    for at, said in rules.items():
        report.error(at, ", or ".join(dict.fromkeys(said)))


def steps_to(told: ErrorDetails) -> Place:
    """The error's place as pydantic counts it; where a check of the whole blames one argument, that
    one's."""
    error = told.get("ctx", {}).get("error")
    return told["loc"] or ((error.argument,) if isinstance(error, BadArgument) else ())


def _inside(value: Any, told: ErrorDetails) -> Place:
    """The error's place in the JSON; pydantic also counts the alternatives of a type as steps."""
    steps = steps_to(told)
    for count, step in enumerate(steps):
        if isinstance(value, dict) and step in value:
            value = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
        else:
            return steps[: count + (told["type"] == "missing")]
    return steps
