"""The `data` of a record: a JSON object, kept as text. What would not come back as it was given is
refused."""

import math
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, WithJsonSchema

from memrelay.memory.errors import RecordDamaged
from memrelay.memory.records.record import Further, Record
from memrelay.memory.validation import Faults, Place

MOST_BYTES = 1 << 16  # as JSON
MOST_DEPTH = 16  # of objects and lists in each other
SMALLEST, LARGEST = -(2**63), 2**63 - 1  # of an integer, as SQLite keeps it
NUL = "\0"  # ends a key for SQLite's JSON functions, which would take it for another
TOO_LONG = "an integer has 64 bits; keep a longer one as text"


def checked(data: dict[str, Any]) -> dict[str, Any]:
    """The same. Raises ValidationError with what is wrong, by place."""
    faults = Faults()
    _check(data, (), faults)
    if not faults:
        _check_size(data, faults)
    faults.raise_any("data")
    return data


def as_text(data: dict[str, Any]) -> str | None:
    """As it is stored; None for an empty object."""
    return orjson.dumps(data).decode() if data else None


def number_fault(value: float) -> str:
    """Why it cannot be a number here; "" where it can."""
    if isinstance(value, int):
        return "" if SMALLEST <= value <= LARGEST else TOO_LONG
    return "" if math.isfinite(value) else "JSON knows no such number"


def text_fault(value: str) -> str:
    """Why it cannot be a text; "" where it can."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return "a text must be Unicode, without half of a surrogate pair"
    return ""


def _check(value: Any, place: Place, faults: Faults) -> None:
    match value:
        case None | bool():
            return
        case str():
            rule = text_fault(value)
        case int() | float():
            rule = number_fault(value)
        case dict() | list():
            rule = f"is nested more than {MOST_DEPTH} deep" if len(place) >= MOST_DEPTH else ""
        case _:
            rule = (
                "must be what JSON knows: an object, a list, a text, a number, true, false or null"
            )
    if rule:
        faults.add(place, rule, None)
    elif isinstance(value, dict | list):
        _check_inside(value, place, faults)


def _check_inside(value: dict[str, Any] | list[Any], place: Place, faults: Faults) -> None:
    for step, held in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(value, dict) and (
            not isinstance(step, str) or text_fault(step) or NUL in step
        ):
            faults.add(place, "its keys must be texts of Unicode, without the character NUL", None)
        else:
            _check(held, (*place, step), faults)


def _check_size(data: dict[str, Any], faults: Faults) -> None:
    if len(orjson.dumps(data)) > MOST_BYTES:
        faults.add(
            (), f"has more than {MOST_BYTES} bytes as JSON; put what is long into the content", None
        )


Data = Annotated[
    dict[str, Any],
    AfterValidator(checked),
    WithJsonSchema({"type": "object", "additionalProperties": True}),
]


# JSON that a record keeps, its tags and its `data`, as it is read: what a disk has changed is told
# of that record.


def kept_json(text: str, guid: str) -> Any:
    """What it says. Raises RecordDamaged."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise RecordDamaged(
            f"record {guid} is damaged: {error} in its tags or `data`, {text[:40]!r}; records.update gives it "
            "others, `memrelay scrub` looks for more of it"
        ) from error


def kept_data(record: Record, further: Further) -> dict[str, Any]:
    """A record's `data`; {} where it has none. Raises RecordDamaged."""
    found: dict[str, Any] = kept_json(further.data, record.guid) if further.data else {}
    return found
