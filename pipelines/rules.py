"""What pydantic says is wrong, in the words of JSON."""

import re

from pydantic_core import ErrorDetails, ValidationError

MOST = 20  # told at once
_SHOULD = re.compile(
    r"\A\w+ should (?=be |have |match )"
)  # Input should be, String should have, Tuple should have
_PLAIN = {"missing": "is missing", "unexpected_keyword_argument": "is no field of it"}
_OBJECT, _LIST = "a valid dictionary", re.compile(r"a valid (?:array|list|tuple|set)\b")


def rule_of(told: ErrorDetails) -> str:
    """The rule that does not hold."""
    if told["type"] in _PLAIN:
        return _PLAIN[told["type"]]
    said = _SHOULD.sub("must ", told["msg"].removeprefix("Value error, ")).replace(
        " after validation, not ", ", not "
    )
    return _LIST.sub("a list", said.replace(_OBJECT, "an object"))


def in_a_line(error: ValidationError) -> str:
    """All that is wrong with an input, each with its place."""
    told = error.errors(include_url=False)[:MOST]
    return "; ".join(
        [f"{'.'.join(map(str, one['loc'])) or 'the input'}: {rule_of(one)}" for one in told]
    )
