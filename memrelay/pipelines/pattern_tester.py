"""Tries a pattern, a JMESPath expression or a template on a text, with the code of the blocks."""

from typing import Any, NamedTuple

from memrelay.blocks.errors import BadArgument
from memrelay.blocks.patterns import Pattern
from memrelay.blocks.templates import MAX_SOURCE, BadTemplate, JsonTemplate
from memrelay.memory.errors import Refused, ResultTooLarge
from memrelay.pipelines.expressions import ExpressionFault, compile_expression, parse_json_text

KINDS = ("regex", "jmespath", "template")
# Characters of a pattern, and bytes of a text and of a result.
MAX_PATTERN, MAX_TEXT, MAX_RESULT = MAX_SOURCE, 64 << 10, 256 << 10


class Tried(NamedTuple):
    """The outcome. `fault` states what is wrong with the pattern, or with it on this text."""

    valid: bool
    fault: str
    result: Any


def try_pattern(kind: str, pattern: str, text: str, flags: str = "") -> Tried:
    """Try a pattern of one of KINDS on a text. The engines take linear time, or have a time limit.

    The result of `regex` is `{matched, groups, spans}` of the first match: `groups` has the texts
    by number and name, `spans` the start and end of the match and of each group in characters. The
    result of `jmespath` is the value over the JSON of the text, and that of `template` a text.
    """
    try:
        if kind == "regex":
            return Tried(True, "", _search(Pattern(pattern, flags), text))
        if kind == "jmespath":
            expression = compile_expression(pattern)
            return Tried(True, "", expression.evaluate(parse_json_text(text), MAX_RESULT))
        return Tried(True, "", JsonTemplate(pattern).render(parse_json_text(text)))
    except (BadArgument, BadTemplate) as error:
        return Tried(False, str(error), None)
    except (ExpressionFault, Refused, ResultTooLarge) as error:
        return Tried(True, str(error), None)
    except ValueError as error:
        return Tried(False, str(error), None)


def _search(pattern: Pattern, text: str) -> dict[str, Any]:
    found = pattern.search(text)
    if found is None:
        return {"matched": False, "groups": {}, "spans": []}
    return {"matched": True, "groups": found.groups, "spans": found.spans}
