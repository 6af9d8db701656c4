"""Pydantic's validation errors in the words of JSON."""

import re

from pydantic_core import ErrorDetails, ValidationError

MAX_ERRORS = 20  # in one line
# "Input should be", "String should have", "Tuple should have"
_SHOULD = re.compile(r"\A\w+ should (?=be |have |match )")
_PLAIN = {"missing": "is missing", "unexpected_keyword_argument": "is no field of it"}
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
