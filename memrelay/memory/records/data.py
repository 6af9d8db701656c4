"""The JSON of records: `data`, an object that is stored as text, and tags.

Values that would not survive the round trip through SQLite are rejected.
"""

import math
import re
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, ValidationError, WithJsonSchema

from memrelay.memory.errors import BadTags, RecordDamaged, Refused
from memrelay.memory.records.record import Record, RecordExtras
from memrelay.memory.validation import Faults, Place

# Maximum size as JSON, bytes.
MOST_BYTES = 1 << 16
# The field for what did not fit, how many names it has at most, and their bytes.
LEFT_OUT = "_left_out"
MOST_LEFT_OUT = 10
LEFT_OUT_BYTES = 4096
# Maximum nesting of objects and lists.
MAX_DEPTH = 16
# Terminates a key in SQLite's JSON functions, which would then read another key.
NUL = "\0"
TOO_LONG = "an integer has 64 bits; store a longer one as text"
RULE = (
    'tags are a JSON array of strings like ["important","fact"], or a comma-separated list like '
    "important,fact"
)
# Range of a SQLite integer.
SMALLEST, LARGEST = -(2**63), 2**63 - 1
# JSON numbers up to here survive the parser.
LARGEST_UNSIGNED = 2**64 - 1
# The shortest integers beyond 64 bits have 19 digits.
LONG = re.compile(rb"[0-9]{19}")
# A string, or a number. A string may lack its end, so that the search goes on after it.
TOKEN = re.compile(rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+(?:"|\Z)|-?[0-9][0-9.eE+-]*', re.DOTALL)
INTEGER = re.compile(rb"-?[0-9]{19,}")
MAX_DIGITS = 20
SHOWN = 40


def checked(data: dict[str, Any]) -> dict[str, Any]:
    """Return `data` if it is valid. Raises ValidationError with every error by place."""
    faults = Faults()
    _check(data, (), faults)
    if not faults:
        _check_size(data, faults)
    faults.raise_any("data")
    return data


def fit(value: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a JSON object that a record can have as its `data`.

    The field LEFT_OUT has the reasons for the others, by name.
    """
    kept: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    room = MOST_BYTES - LEFT_OUT_BYTES
    for name, inner in value.items():
        try:
            checked({name: inner})
            size = len(orjson.dumps({name: inner}))
            reason = "" if size <= room else f"`data` has at most {MOST_BYTES} bytes"
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
        if not reason:
            kept[name], room = inner, room - size
        elif len(left_out) < MOST_LEFT_OUT:
            left_out[text_fault(name) or name[:SHOWN]] = reason[:100]
        else:
            left_out["..."] = "more fields"
    return kept | {LEFT_OUT: left_out} if left_out else kept


def as_text(data: dict[str, Any]) -> str | None:
    """Return `data` as stored JSON text, None for an empty object."""
    return orjson.dumps(data).decode() if data else None


def number_fault(value: float) -> str:
    """Return why a number is invalid, "" if it is valid."""
    if isinstance(value, int):
        return "" if SMALLEST <= value <= LARGEST else TOO_LONG
    return "" if math.isfinite(value) else "a number must be finite: JSON has no infinity or NaN"


def text_fault(value: str) -> str:
    """Return why a text is invalid, "" if it is valid."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return "a text must be valid Unicode, without a lone surrogate"
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
            rule = f"is nested more than {MAX_DEPTH} deep" if len(place) >= MAX_DEPTH else ""
        case _:
            rule = "must be a JSON value: an object, a list, a text, a number, true, false or null"
    if rule:
        faults.add(place, rule, None)
    elif isinstance(value, dict | list):
        _check_inside(value, place, faults)


def _check_inside(value: dict[str, Any] | list[Any], place: Place, faults: Faults) -> None:
    for step, held in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(value, dict) and (
            not isinstance(step, str) or text_fault(step) or NUL in step
        ):
            faults.add(place, "keys must be valid Unicode texts without the character NUL", None)
        else:
            _check(held, (*place, step), faults)


def _check_size(data: dict[str, Any], faults: Faults) -> None:
    if len(orjson.dumps(data)) > MOST_BYTES:
        faults.add(
            (), f"has more than {MOST_BYTES} bytes as JSON; put long texts into the content", None
        )


Data = Annotated[
    dict[str, Any],
    AfterValidator(checked),
    WithJsonSchema({"type": "object", "additionalProperties": True}),
]


# Stored JSON: corruption of the disk is reported for the record that it affects.


def load_json(text: str, guid: str) -> Any:
    """Parse the stored tags or `data` of a record. Raises RecordDamaged."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise RecordDamaged(
            f"record {guid} is damaged: {error} in its tags or `data`, {text[:40]!r}; replace them "
            "with records.update, and run `memrelay scrub` to find more damage"
        ) from error


def kept_data(record: Record, extras: RecordExtras) -> dict[str, Any]:
    """Return the `data` of a record, {} if it has none. Raises RecordDamaged."""
    return parse_data(extras.data, record.guid)


def parse_data(data: str | None, guid: str) -> dict[str, Any]:
    """Return the stored `data` of the record with that guid, {} for none. Raises RecordDamaged."""
    parsed: dict[str, Any] = load_json(data, guid) if data else {}
    return parsed


def parse(value: Any) -> tuple[str, ...]:
    """Return the tags in order without duplicates. Raises BadTags."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = _split(value)
    if not isinstance(value, list | tuple) or not all(isinstance(tag, str) for tag in value):
        raise BadTags(f"{RULE}; got {str(value)[:100]!r}")
    return tuple(dict.fromkeys(tag.strip() for tag in value if tag.strip()))


def _split(text: str) -> Any:
    # A text that begins like other JSON is not a list of words either.
    if not text.lstrip().startswith(("[", "{", '"')):
        return text.split(",")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadTags(f"{RULE}; invalid JSON: {error}") from error


def check_integers(text: bytes) -> None:
    """Raise Refused if valid JSON has an integer that does not fit into 64 bits."""
    if LONG.search(text) is None:
        return
    for token in TOKEN.finditer(text):
        number = token[0]
        if INTEGER.fullmatch(number) is None:
            continue
        has_few_digits = len(number.lstrip(b"-")) <= MAX_DIGITS
        if not (has_few_digits and SMALLEST <= int(number) <= LARGEST_UNSIGNED):
            raise Refused(
                f"the integer {number[:SHOWN].decode()} has more than 64 bits and would be "
                "rounded; send it as text"
            )
