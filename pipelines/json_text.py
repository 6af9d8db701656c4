"""JSON as people write it: parsed within bounds, and what is wrong told with its line and
column."""

from typing import Any

import orjson

from pipelines.faults import Place
from pipelines.json_bounds import is_deeper, too_many_keys
from pipelines.json_slips import keys_that_stand_twice, line_not_in_utf8, remedy_for
from pipelines.report import Report

MOST_BYTES = 1 << 20  # of a bundle, before and after ${pipeline_uid} is filled in
MOST_DEPTH = 32
MOST_KEYS = 20_000
BOM = b"\xef\xbb\xbf"


def parse_bundle(raw: bytes | dict[str, Any], report: Report) -> dict[str, Any] | None:
    """The bundle as an object; None after telling what is wrong. A dict goes through JSON too,
    which copies it."""
    try:
        text = raw if isinstance(raw, bytes) else orjson.dumps(raw)
    except orjson.JSONEncodeError as error:
        report.error((), f"not JSON: {error}")
        return None
    if not fits(text, report):
        return None
    text = text.removeprefix(BOM)
    value = parse_object(text, (), report)
    for key in keys_that_stand_twice(text) if value is not None else ():
        report.warn(
            (),
            f"{key[:100]!r} stands twice in one object, and the last one counts",
            "leave one of them",
        )
    return value


def fits(text: bytes, report: Report) -> bool:
    """Is the bundle small enough? Tells where it is not."""
    if len(text) <= MOST_BYTES:
        return True
    report.error(
        (),
        f"a bundle has at most {MOST_BYTES} bytes; this has {len(text)}",
        "split it into several pipelines",
    )
    return False


def parse_object(text: bytes | str, place: Place, report: Report) -> dict[str, Any] | None:
    """The object that a text holds; None after telling what is wrong."""
    encoded = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
    if line := line_not_in_utf8(encoded):
        report.error(place, f"not JSON: not UTF-8 (line {line})", "save it as UTF-8")
        return None
    if too_many_keys(encoded, MOST_KEYS):
        report.error(place, f"has more than {MOST_KEYS} keys", "split it into several pipelines")
        return None
    try:
        value = orjson.loads(encoded)
    except orjson.JSONDecodeError as error:
        report.error(
            place,
            f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})",
            remedy_for(error),
        )
        return None
    return bounded_object(value, place, report)


def bounded_object(value: object, place: Place, report: Report) -> dict[str, Any] | None:
    """The value, if it is an object that is not nested too deeply; None after telling."""
    if not isinstance(value, dict):
        report.error(place, "must be a JSON object, like {}")
    elif is_deeper(value, MOST_DEPTH):
        report.error(place, f"nested deeper than {MOST_DEPTH}")
    else:
        return value
    return None
