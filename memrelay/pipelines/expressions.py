"""JMESPath over the JSON of messages, within bounds.

Expressions come from bundles and values from strangers, and both run in the database thread. So an
expression is small, and its evaluation counts its steps and the bytes of its result.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson
from jmespath import functions
from jmespath.exceptions import JMESPathError, LexerError, ParseError
from jmespath.parser import Parser
from jmespath.visitor import TreeInterpreter

from memrelay.pipelines.json_text import is_deeper, opens_more

MAX_CHARACTERS = 1_000
MAX_NODES = 100
MAX_DEPTH = 20
# Visited nodes of the expression, elements that a function or a comparison reads, and
# CHARACTERS_PER_STEP characters of a text.
MAX_STEPS = 200_000
CHARACTERS_PER_STEP = 64
# A text with deeper or more values is no JSON for an expression.
MAX_VALUE_DEPTH = 200
MAX_VALUES = 1_000_000
# Functions that read only the outer level of their arguments. The others read all of it.
SHALLOW = frozenset({"keys", "length", "map", "merge", "not_null", "to_array", "type", "values"})
LONE_SURROGATE = re.compile(r"\\(?:u[dD][89a-fA-F][0-9a-fA-F]{2}|.)", re.DOTALL)
# Strings without escapes with all between them, or one string with escapes.
STRINGS = re.compile(r'(?:"[^"\\]*+"[^"]*+)++|"[^"\\]*+(?:\\.[^"\\]*+)++"?', re.DOTALL)
SURROGATE = re.compile("[\ud800-\udfff]")
_encode_string = json.JSONEncoder(ensure_ascii=False).encode
_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder().decode
_check_json = msgspec.json.Decoder(msgspec.Raw).decode


class ExpressionFault(ValueError):
    """The evaluation of an expression has reached a bound. The text names it."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    source: str
    _tree: dict[str, Any] = field(repr=False, compare=False)

    def evaluate(self, value: Any, max_bytes: int) -> Any:
        """Return the value of the expression, a JSON value of at most `max_bytes` bytes.

        A function or a comparison that does not take the type of its arguments makes the value
        null, as a missing field does. Raises ExpressionFault.
        """
        interpreter = _Interpreter(self.source)
        try:
            result = interpreter.visit(self._tree, value)
        except ExpressionFault:
            raise
        except (JMESPathError, TypeError, ArithmeticError):
            return None
        if isinstance(result, str | list | dict) and _is_longer(result, max_bytes):
            raise ExpressionFault(
                f"the result of {self.source!r} has more than {max_bytes} bytes; select less"
            )
        return result


def compile_expression(text: str) -> Expression:
    """Return the expression. Raises ValueError that names the rule."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"an expression has at most {MAX_CHARACTERS} characters, not {len(text)}")
    try:
        tree = Parser().parse(text).parsed
    except RecursionError as error:
        raise ValueError(f"an expression is nested at most {MAX_DEPTH} deep") from error
    except JMESPathError as error:
        raise ValueError(_explain(text, error)) from error
    for count, (node, depth) in enumerate(_walk(tree), 1):
        if count > MAX_NODES:
            raise ValueError(f"an expression has at most {MAX_NODES} parts; use a shorter one")
        if depth > MAX_DEPTH:
            raise ValueError(f"an expression is nested at most {MAX_DEPTH} deep; use a flatter one")
        if node["type"] == "function_expression":
            _check_function(node)
    if tree["type"] == "expref":
        raise ValueError("`&` stands only before an argument of a function, like sort_by(@, &id)")
    return Expression(text, tree)


def parse_json_text(text: str) -> Any:
    """Return the value of a JSON text. Any other text is {"text": text}."""
    try:
        return parse_json(text)
    except ValueError:
        return {"text": text}


def parse_json(text: str) -> Any:
    """Return the value of a JSON text. A lone surrogate becomes U+FFFD.

    Raises ValueError for any other text. JSON that is nested deeper than MAX_VALUE_DEPTH, or that
    has more than MAX_VALUES values, is such a text too.
    """
    data = text.encode(errors="replace")
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_VALUES:
        raise ValueError(f"JSON has at most {MAX_VALUES} values")
    try:
        value = _decode(data, text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError("not JSON") from error
    if opens_more(data, MAX_VALUE_DEPTH) and is_deeper(value, MAX_VALUE_DEPTH):
        raise ValueError(f"JSON is nested at most {MAX_VALUE_DEPTH} deep")
    return value


def _decode(data: bytes, text: str) -> Any:
    try:
        return _from_json(data)
    except msgspec.DecodeError:
        if not LONE_SURROGATE.search(text):
            raise
        return _from_json(_replace_lone_surrogates(text))


def to_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else _to_json(value).decode()


def normalize_json(text: str) -> str | None:
    r"""Return a JSON text without needless escapes, None if the text is not JSON.

    Only `\uXXXX` and `\/` in strings change. Numbers, order, duplicate keys and spacing stay.
    Quotes, backslashes, control characters and lone surrogates stay escaped.
    """
    if not is_json(text):
        return None
    return _decode_strings(text) if "\\u" in text or "\\/" in text else text


def is_json(text: str) -> bool:
    """Return whether a text is JSON. No value is built."""
    try:
        _check_json(text)
    except msgspec.DecodeError:
        # The parser refuses lone surrogates, which JSON allows.
        return "\\u" in text and _is_json_with_surrogates(text)
    except (RecursionError, UnicodeEncodeError):
        return False
    return True


def _is_json_with_surrogates(text: str) -> bool:
    try:
        _check_json(_replace_lone_surrogates(text))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


def _replace_lone_surrogates(text: str) -> str:
    # After the decoding of pairs, each surrogate that is left is a lone one.
    return LONE_SURROGATE.sub(
        lambda escape: "\\ufffd" if len(escape[0]) == 6 else escape[0], _decode_strings(text)
    )


def _decode_strings(text: str) -> str:
    return STRINGS.sub(_decode_string, text)


def _decode_string(token: re.Match[str]) -> str:
    string = token[0]
    if "\\u" not in string and "\\/" not in string:
        return string
    try:
        return orjson.dumps(orjson.loads(string)).decode()
    except orjson.JSONDecodeError:
        return _decode_string_with_surrogates(string)


def _decode_string_with_surrogates(string: str) -> str:
    try:
        decoded = _encode_string(json.loads(string))
    except ValueError:
        return string
    return SURROGATE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", decoded)


def _explain(text: str, error: JMESPathError) -> str:
    place = getattr(error, "lex_position", None)
    rule = f"not JMESPath: {text[:100]!r}"
    if isinstance(error, LexerError | ParseError) and place is not None:
        rule += f" from character {place + 1} on"
    if text.lstrip().startswith("$"):
        return f"{rule}; it has no `$`: write a.b for $.a.b"
    return f"{rule}; write a path like issue.title or items[0].id (jmespath.org)"


def _walk(tree: dict[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the nodes with their depth, from 1. A slice has numbers in place of nodes."""
    open_nodes = [(tree, 1)]
    while open_nodes:
        node, depth = open_nodes.pop()
        yield node, depth
        open_nodes.extend(
            (child, depth + 1) for child in node["children"] if isinstance(child, dict)
        )


def _check_function(node: dict[str, Any]) -> None:
    """Check the name, the number of arguments, and where `&` stands."""
    name, arguments = node["value"], node["children"]
    known = _Functions.FUNCTION_TABLE.get(name)
    if known is None:
        names = ", ".join(sorted(_Functions.FUNCTION_TABLE))
        raise ValueError(f"JMESPath has no function {name!r}; it has {names}")
    signature: Sequence[dict[str, Any]] = known["signature"]
    is_variadic = bool(signature) and signature[-1].get("variadic", False)
    if len(arguments) < len(signature) or (len(arguments) > len(signature) and not is_variadic):
        raise ValueError(f"the function {name} takes {len(signature)} arguments")
    for at, argument in enumerate(arguments):
        wants = "expref" in signature[min(at, len(signature) - 1)]["types"]
        if wants != (argument["type"] == "expref"):
            raise ValueError(
                f"argument {at + 1} of {name} {'needs' if wants else 'has no'} `&` before it"
            )


class _Functions(functions.Functions):  # type: ignore[misc]
    """The functions of JMESPath. `to_string` keeps all characters."""

    @functions.signature({"types": []})  # type: ignore[untyped-decorator]
    def _func_to_string(self, value: Any) -> str:
        return to_text(value)


_FUNCTIONS = _Functions()


class _Interpreter(TreeInterpreter):  # type: ignore[misc]
    """Evaluates an expression once. It counts the steps."""

    def __init__(self, source: str) -> None:
        self._source, self._left = source, MAX_STEPS
        self._functions, self._dict_cls = _FUNCTIONS, dict

    def visit(self, node: dict[str, Any], value: Any) -> Any:
        self._spend(1)
        return getattr(self, f"visit_{node['type']}")(node, value)

    def visit_function_expression(self, node: dict[str, Any], value: Any) -> Any:
        name, arguments = node["value"], [self.visit(child, value) for child in node["children"]]
        for argument in arguments:
            self._spend(count_steps(argument, self._left, deep=name not in SHALLOW))
        return self._functions.call_function(name, arguments)

    def visit_comparator(self, node: dict[str, Any], value: Any) -> Any:
        left, right = [self.visit(child, value) for child in node["children"]]
        self._spend(min(count_steps(one, self._left, deep=True) for one in (left, right)))
        literals = [{"type": "literal", "value": one} for one in (left, right)]
        return super().visit_comparator(node | {"children": literals}, value)

    def visit_flatten(self, node: dict[str, Any], value: Any) -> Any:
        base = self.visit(node["children"][0], value)
        if isinstance(base, list):
            self._spend(len(base) + sum(len(one) for one in base if isinstance(one, list)))
        return super().visit_flatten({"children": [{"type": "literal", "value": base}]}, value)

    def visit_slice(self, node: dict[str, Any], value: Any) -> Any:
        self._spend(len(value) if isinstance(value, list) else 0)
        return super().visit_slice(node, value)

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise ExpressionFault(
                f"the evaluation of {self._source!r} takes more than {MAX_STEPS} steps; select "
                "less of the JSON first"
            )


def count_steps(value: Any, most: int, *, deep: bool) -> int:
    """Return the elements and texts in a value in steps. It stops counting above `most`."""
    steps, open_values = 0, [value]
    while open_values and steps <= most:
        one = open_values.pop()
        if isinstance(one, str):
            steps += len(one) // CHARACTERS_PER_STEP
        elif isinstance(one, list | dict):
            steps += len(one)
            if deep and steps <= most:
                open_values.extend(one.values() if isinstance(one, dict) else one)
    return steps


def _is_longer(value: Any, most: int) -> bool:
    """Return whether a value has more than `most` bytes as JSON: texts, names and separators."""
    size, open_values = 0, [value]
    while open_values and size <= most:
        one = open_values.pop()
        if isinstance(one, str):
            size += len(one) if one.isascii() else len(one.encode())
        elif isinstance(one, list | dict):
            size += 2 * len(one)
            if size <= most:
                open_values.extend(one if isinstance(one, list) else [*one, *one.values()])
    return size > most
