"""Answers of the declared routes: the shape of an answer selects and renames the output's fields.

A field such as `createdAt` of a shape is the field `created_at` of the output.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NotRequired, get_args, get_origin, get_type_hints

from aiohttp import hdrs, web
from typing_extensions import is_typeddict  # required by Python 3.11

from memrelay.web.api.answers import json_response
from memrelay.web.codebolt.declaration import Answer, Call
from memrelay.web.codebolt.fields import Json

CAMEL_CASE = re.compile(r"(?<=[a-z])([A-Z])")
# Fields of answers whose names in the operations differ in more than the spelling.
NAMES = {"view_template_id": "template_id"}


def one_of(shape: Any) -> Callable[[Call], Any]:
    """Return a conversion of the output to a shape."""
    return lambda call: to_shape(shape, call.output)


def all_of(shape: Any) -> Callable[[Call], Any]:
    """Return a conversion of the output's items to an array."""
    return lambda call: [to_shape(shape, one) for one in call.output["items"]]


def first_of(shape: Any, field: str = "items") -> Callable[[Call], Any]:
    """Return a conversion of the only object in a field of the output to a shape."""
    return lambda call: to_shape(shape, call.output[field][0])


def answer_json(convert: Callable[[Call], Any], status: int = 200) -> Answer:
    """Return an answer with the JSON that `convert` returns."""
    return lambda call: json_response(convert(call), status)


def answer_output(call: Call) -> web.Response:
    """Return an answer with the output as it is."""
    return json_response(call.output)


def answer_empty(call: Call) -> web.Response:
    """Return an answer without a body."""
    return web.Response(status=204)


def answer_file(call: Call) -> web.Response:
    """Return an answer with a text as a file named after the id."""
    name = f'attachment; filename="{call.output["id"]}.json"'
    return web.Response(
        text=call.output["text"],
        content_type="application/json",
        headers={hdrs.CONTENT_DISPOSITION: name},
    )


def to_shape(shape: Any, output: Any) -> Any:
    """Return an output in a shape. Fields that the caller may not read are absent.

    Values of any type stay as they are.
    """
    if get_origin(shape) is NotRequired:
        return to_shape(get_args(shape)[0], output)
    if get_origin(shape) is list and isinstance(output, list):
        return [to_shape(get_args(shape)[0], one) for one in output]
    if not is_typeddict(shape) or not isinstance(output, dict):
        return output
    found: Json = {}
    for name, source, inner in _fields_of(shape):
        for known in (source, NAMES.get(source, source), name):
            if known in output:
                found[name] = to_shape(inner, output[known])
                break
    return found


@cache
def _fields_of(shape: Any) -> list[tuple[str, str, Any]]:
    """Return (name, name in the output, type) of each field of a shape."""
    return [
        (name, CAMEL_CASE.sub(r"_\1", name).lower(), hint)
        for name, hint in get_type_hints(shape).items()
    ]
