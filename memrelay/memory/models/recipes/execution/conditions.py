"""Conditions: look up fields of JSON values, compare values without conversion, and parse the
conditions of `conditional` and `early_exit`: `results.count >= 5 && !vars.done`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from memrelay.memory.validation import parse_number


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


# Stands for a value that does not exist, unlike a stored null.
MISSING: Final = _Missing()


def get_field(item: Any, path: str) -> Any:
    """Return the field of an item, MISSING if it does not exist. A key may contain dots."""
    if path in item:
        return item[path]
    return get_path(item, path.split(".")) if "." in path else MISSING


def get_path(value: Any, keys: Sequence[str]) -> Any:
    """Follow keys of objects and positions in lists. Return MISSING if one does not exist."""
    for key in keys:
        if isinstance(value, dict):
            value = value.get(key, MISSING)
        elif isinstance(value, list) and 0 <= (at := parse_number(key, -1)) < len(value):
            value = value[at]
        else:
            return MISSING
    return value


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def are_equal(left: Any, right: Any) -> bool:
    """Return whether two scalars have one type and are equal. MISSING equals null."""
    if left is MISSING or left is None:
        return right is None or right is MISSING
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return _are_alike(left, right) and bool(left == right)


def is_less(left: Any, right: Any) -> bool:
    """Return whether both are numbers or both are texts, and the left one comes first."""
    return _are_alike(left, right) and bool(left < right)


def is_less_or_equal(left: Any, right: Any) -> bool:
    """Return whether both are numbers or both are texts, and the right one is not smaller."""
    return _are_alike(left, right) and bool(left <= right)


def _are_alike(left: Any, right: Any) -> bool:
    if isinstance(left, str):
        return isinstance(right, str)
    return is_number(left) and is_number(right)


def _contains(value: Any, part: Any) -> bool:
    """Return whether a text contains a text, or a list has an equal element."""
    if isinstance(value, list):
        return any(are_equal(element, part) for element in value)
    return isinstance(value, str) and isinstance(part, str) and part in value


def _starts_with(value: Any, start: Any) -> bool:
    return isinstance(value, str) and isinstance(start, str) and value.startswith(start)


def _ends_with(value: Any, end: Any) -> bool:
    return isinstance(value, str) and isinstance(end, str) and value.endswith(end)


def _is_in(value: Any, elements: list[Any]) -> bool:
    return any(are_equal(value, element) for element in elements)


# How rules, conditions and the step `filter` compare a value with another one.
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": are_equal,
    "neq": lambda left, right: not are_equal(left, right),
    "gt": lambda left, right: is_less(right, left),
    "gte": lambda left, right: is_less_or_equal(right, left),
    "lt": is_less,
    "lte": is_less_or_equal,
    "contains": _contains,
    "starts_with": _starts_with,
    "ends_with": _ends_with,
    "in": _is_in,
}


MAX_CHARACTERS = 2000
MAX_NESTING = 32
TOKEN = re.compile(
    r"\s*(?:(?P<operator>\|\||&&|>=|<=|==|!=|[<>!()])"
    r"|(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![\w.])"
    r"|(?P<text>'(?:[^'\\]|\\(?s:.))*'|\"(?:[^\"\\]|\\(?s:.))*\")"
    r"|(?P<name>[A-Za-z_][\w-]*(?:\.[\w-]+)*)"
    r"|(?P<end>$))",
    re.ASCII,
)
# A backslash before any other character stands for itself.
ESCAPED = re.compile(r"\\(['\"\\])")
LITERALS = {"true": True, "false": False, "null": None}
# The names of comparisons by their signs.
SIGNS = {"==": "eq", "!=": "neq", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
TERMS = "query, query.length, query.contains('text'), vars.NAME, results.count or results.ALIAS"


class ConditionError(ValueError):
    """The condition is malformed. `position` counts its characters from 1."""

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(f"{problem} at position {position}")
        self.position = position


class Scope(Protocol):
    """The values that a condition reads."""

    @property
    def query(self) -> str:
        """The query of the run."""

    @property
    def results(self) -> Mapping[str, Any]:
        """The results so far, by alias."""

    def variable(self, name: str) -> Any:
        """Return the value of a declared variable, MISSING if it has none."""

    def lacks(self, alias: str) -> None:
        """Note that the condition reads an alias without result."""


Value = Callable[[Scope], Any]


@dataclass(frozen=True, slots=True)
class Condition:
    text: str
    # Aliases of results that it reads.
    aliases: tuple[str, ...]
    # Names that it reads from `vars`.
    variables: tuple[str, ...]
    evaluate: Value

    def holds(self, scope: Scope) -> bool:
        return self.evaluate(scope) is True


def parse_condition(text: str) -> Condition:
    """Parse a condition. Raises ConditionError with the position of the problem."""
    if len(text) > MAX_CHARACTERS:
        raise ConditionError(f"more than {MAX_CHARACTERS} characters", MAX_CHARACTERS + 1)
    parser = _Parser(text)
    evaluate = parser.parse()
    return Condition(
        text,
        tuple(dict.fromkeys(parser.aliases)),
        tuple(dict.fromkeys(parser.variables)),
        evaluate,
    )


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


class _Parser:
    """A recursive descent parser: `||`, then `&&`, then `!`, then comparisons."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokenize(text)
        self._at = self._depth = 0
        self.aliases: list[str] = []
        self.variables: list[str] = []

    def parse(self) -> Value:
        value = self._any()
        if self._next.kind != "end":
            raise _unexpected(self._next, "an operator")
        return value

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *operators: str) -> _Token | None:
        token = self._next
        if token.kind != "operator" or token.text not in operators:
            return None
        self._at += 1
        return token

    def _any(self) -> Value:
        parts = [self._all()]
        while self._take("||"):
            parts.append(self._all())
        if len(parts) == 1:
            return parts[0]
        return lambda scope: any(part(scope) is True for part in parts)

    def _all(self) -> Value:
        parts = [self._not()]
        while self._take("&&"):
            parts.append(self._not())
        if len(parts) == 1:
            return parts[0]
        return lambda scope: all(part(scope) is True for part in parts)

    def _not(self) -> Value:
        if (token := self._take("!")) is None:
            return self._comparison()
        self._deepen(token)
        negated = self._not()
        self._depth -= 1
        return lambda scope: negated(scope) is not True

    def _comparison(self) -> Value:
        left = self._term()
        if (token := self._take(*SIGNS)) is None:
            return left
        compare, right = COMPARISONS[SIGNS[token.text]], self._term()
        return lambda scope: compare(left(scope), right(scope))

    def _term(self) -> Value:
        if (opened := self._take("(")) is not None:
            self._deepen(opened)
            inner = self._any()
            self._depth -= 1
            self._close()
            return inner
        token = self._next
        if token.kind not in ("number", "text", "name"):
            raise _unexpected(token, "a value")
        self._at += 1
        if token.kind == "name" and token.text not in LITERALS:
            return self._named(token)
        literal = _literal(token)
        return lambda scope: literal

    def _named(self, token: _Token) -> Value:
        root, *path = token.text.split(".")
        if root == "query" and path in ([], ["length"], ["contains"]):
            return self._query(path)
        if root == "vars" and path:
            self.variables.append(path[0])
            return lambda scope: _null(get_path(scope.variable(path[0]), path[1:]))
        if root == "results" and path == ["count"]:
            return lambda scope: sum(map(count_items, scope.results.values()))
        if root == "results" and path:
            self.aliases.append(path[0])
            return lambda scope: _result_value(scope, path)
        raise ConditionError(f'unknown term "{token.text}" (use {TERMS})', token.position)

    def _query(self, path: list[str]) -> Value:
        if not path:
            return lambda scope: scope.query
        if path == ["length"]:
            return lambda scope: len(scope.query)
        if self._take("(") is None:
            raise _unexpected(self._next, '"("')
        token = self._next
        if token.kind != "text":
            raise _unexpected(token, "a text in quotes")
        self._at += 1
        self._close()
        part = _unquote(token)
        return lambda scope: part in scope.query

    def _close(self) -> None:
        if self._take(")") is None:
            raise _unexpected(self._next, '")"')

    def _deepen(self, token: _Token) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise ConditionError(f"more than {MAX_NESTING} levels", token.position)


def count_items(result: Any) -> int:
    """Return the number of items in a result; texts and booleans have none."""
    if isinstance(result, dict):
        return sum(map(len, result.values()))
    return len(result) if isinstance(result, list) else 0


def _tokenize(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while not tokens or tokens[-1].kind != "end":
        match = TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            problem = "invalid character"
            if text[at] in "'\"":
                problem = f"a text without closing quote (write \\{text[at]} for a quote in it)"
            raise ConditionError(problem, at + 1)
        kind = match.lastgroup
        tokens.append(_Token(kind, match[kind], match.start(kind) + 1))
        at = match.end()
    return tokens


def _unexpected(token: _Token, expected: str) -> ConditionError:
    actual = "the end" if token.kind == "end" else token.text
    return ConditionError(f"expected {expected} instead of {actual}", token.position)


def _literal(token: _Token) -> Any:
    if token.kind == "name":
        return LITERALS[token.text]
    if token.kind == "text":
        return _unquote(token)
    return int(token.text) if token.text.lstrip("-").isdecimal() else float(token.text)


def _unquote(token: _Token) -> str:
    """Return the text between quotes, which are escaped in it."""
    return ESCAPED.sub(r"\1", token.text[1:-1])


def _result_value(scope: Scope, path: list[str]) -> Any:
    result = scope.results.get(path[0], MISSING)
    if result is MISSING:
        scope.lacks(path[0])
        return 0 if path[1:] == ["length"] else None
    if path[1:] == ["length"]:
        return len(result) if isinstance(result, str) else count_items(result)
    return _null(get_in_result(result, path[1:]))


def get_in_result(result: Any, path: list[str]) -> Any:
    """Return the value at a path in a result, MISSING if it does not exist. Groups count as one
    list, unless the path names a group.
    """
    if isinstance(result, dict) and path and path[0] not in result:
        result = [item for items in result.values() for item in items]
    return get_path(result, path)


def _null(value: Any) -> Any:
    return None if value is MISSING else value
