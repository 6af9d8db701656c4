"""Finds the regular expressions of the product, and makes texts on which they may be slow."""

import ast
import builtins
import copy
import importlib
import inspect
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import partial
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any, NamedTuple

from tests.architecture.source import Source, sources

USES = frozenset(("match", "fullmatch", "search"))
# Functions of re, and methods of its patterns, and how they use a pattern.
USE_OF = {
    **{name: frozenset((name,)) for name in USES},
    **dict.fromkeys(("sub", "subn", "split", "findall", "finditer"), frozenset(("search",))),
    "compile": USES,
}
# The classes of annotations that take a pattern for Python's re: msgspec and pydantic.
ANNOTATIONS = ("Field", "Meta", "StringConstraints")
# Characters for classes that name what they exclude.
OTHERS = 'a0 !"\n_.-\x00\u00e9\u4e00'
CATEGORIES = {
    codes.CATEGORY_DIGIT: "0",
    codes.CATEGORY_SPACE: " \n",
    codes.CATEGORY_WORD: "a",
    codes.CATEGORY_NOT_DIGIT: "a",
    codes.CATEGORY_NOT_SPACE: "a",
    codes.CATEGORY_NOT_WORD: "!",
}
BRACKETS = ("()", "[]", "{}", "<>")
# A character that most patterns accept nowhere.
END = "\x01"


class FoundPattern(NamedTuple):
    where: str
    pattern: re.Pattern[Any]
    # How the product uses it: from the start of a text, on the whole text, or anywhere in it.
    uses: frozenset[str] = USES


def find_patterns(*, loads_all: bool) -> list[FoundPattern]:
    """Return every pattern of memrelay/, each once.

    Without `loads_all`, modules that do not import re are only parsed, not imported.
    """
    found: dict[tuple[str | bytes, int], FoundPattern] = {}
    for source in sources("memrelay"):
        if source.path.endswith("__main__.py"):
            continue
        uses_re = any(name.partition(".")[0] in ("re", "re2") for _, name in source.imports())
        if not (loads_all or uses_re or "pattern=" in source.text):
            continue
        module = importlib.import_module(source.module)
        for one in itertools.chain(in_module(module), in_source(source, module)):
            found.setdefault((one.pattern.pattern, one.pattern.flags), one)
    uses = _uses_of_names(sources("memrelay"))
    return [one._replace(uses=uses.get(one.where, one.uses)) for one in found.values()]


def _uses_of_names(files: Iterable[Source]) -> dict[str, frozenset[str]]:
    """Return how the global names of modules are used, by `memrelay.bus.keys.UID`.

    A name that is used otherwise than by a method, as an argument for example, is left out.
    """
    uses: dict[str, set[str]] = {}
    passed = set[str]()
    for source in files:
        imported = dict(_imported_names(source))
        called = {id(node.value): node for node in source.nodes if isinstance(node, ast.Attribute)}
        for node in source.nodes:
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
                continue
            name = imported.get(node.id, f"{source.module}.{node.id}")
            method = called[id(node)].attr if id(node) in called else ""
            if method in USE_OF:
                uses.setdefault(name, set()).update(USE_OF[method])
            elif method not in ("pattern", "flags"):
                passed.add(name)
    return {name: frozenset(of_name) for name, of_name in uses.items() if name not in passed}


def _imported_names(source: Source) -> Iterator[tuple[str, str]]:
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((one.asname or one.name, f"{node.module}.{one.name}") for one in node.names)


def in_module(module: ModuleType) -> Iterator[FoundPattern]:
    """Yield the patterns in the global values of a module, nested ones included."""
    for name, value in vars(module).items():
        for pattern in _inside(value, module.__name__, set()):
            yield FoundPattern(f"{module.__name__}.{name}", pattern)


def _inside(value: Any, module: str, seen: set[int]) -> Iterator[re.Pattern[Any]]:
    if id(value) in seen:
        return
    seen.add(id(value))
    inner: Iterable[Any] = ()
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Mapping):
        inner = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | Set):
        inner = value
    elif isinstance(value, partial):
        inner = [value.func, *value.args, *value.keywords.values()]
    elif inspect.isclass(value) or inspect.isfunction(value):
        if value.__module__ == module:
            inner = [*vars(value).values(), *_captured(value)]
    elif isinstance(bound := getattr(value, "__self__", None), re.Pattern):
        yield bound
    elif type(value).__module__ == module:
        inner = getattr(value, "__dict__", {}).values()
    for one in inner:
        yield from _inside(one, module, seen)


def _captured(value: Any) -> Iterable[Any]:
    """Return the default and the enclosed values of a function."""
    if not inspect.isfunction(value):
        return ()
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    return [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]


def in_source(source: Source, module: ModuleType) -> Iterator[FoundPattern]:
    """Yield the patterns that are written in calls of re and in annotations.

    A part that is known only when the code runs counts as the letter x.
    """
    for node in source.nodes:
        if not isinstance(node, ast.Call) or (written := _written_pattern(node)) is None:
            continue
        is_annotation = isinstance(node.func, ast.Name)
        uses = USE_OF["search" if is_annotation else node.func.attr]
        names = {one.id for one in ast.walk(written) if isinstance(one, ast.Name) and _binds(one)}
        known = _KnownParts({*vars(module), *vars(builtins), *names}).visit(ast.Expression(written))
        code = compile(ast.fix_missing_locations(known), source.path, "eval")
        pattern, flags = eval(code, dict(vars(module)))
        if isinstance(pattern, str | bytes):
            yield FoundPattern(
                source.at(node, "a pattern in the code"), re.compile(pattern, flags), uses
            )


def _written_pattern(call: ast.Call) -> ast.Tuple | None:
    """Return the pattern and the flags of a call."""
    function = call.func
    named = {one.arg: one.value for one in call.keywords}
    flags = named.get("flags", ast.Constant(0))
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        if function.value.id != "re" or function.attr not in USE_OF:
            return None
        if function.attr == "compile" and len(call.args) > 1:
            flags = call.args[1]
        return _copied(call.args[0], flags)
    if isinstance(function, ast.Name) and function.id in ANNOTATIONS and "pattern" in named:
        return _copied(named["pattern"], flags)
    return None


def _copied(*parts: ast.expr) -> ast.Tuple:
    return ast.Tuple([copy.deepcopy(one) for one in parts], ast.Load())


def _binds(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


class _KnownParts(ast.NodeTransformer):
    """Replaces the parts of an expression that begin with an unknown name."""

    def __init__(self, known: Set[str]) -> None:
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return node if node.id in self._known else ast.Constant("x")

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        inner = self.visit(node.value)
        is_unknown = isinstance(inner, ast.Constant) and inner.value == "x"
        return inner if is_unknown else ast.Attribute(inner, node.attr, node.ctx)


class HostileText(NamedTuple):
    """A text of any size: `before`, then `units` again and again, then `after`.

    With `split`, the first half repeats the first unit, the second half the second one.
    """

    before: str
    units: tuple[str, ...]
    after: str
    split: bool = False

    def make(self, size: int) -> str:
        if not self.split:
            return self.before + _fill("".join(self.units), size) + self.after
        return self.before + "".join(_fill(one, size // 2) for one in self.units) + self.after


def _fill(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]


def hostile_texts(pattern: re.Pattern[Any], most_units: int) -> list[HostileText]:
    """Return runs of each class of the pattern, mixtures of them, and nested brackets.

    Mixtures are those of the first `most_units` classes.
    """
    text = pattern.pattern
    source = text.decode("latin-1") if isinstance(text, bytes) else text
    tree = parser.parse(source, pattern.flags & ~(re.UNICODE | re.ASCII) | _ascii(pattern))
    parts = _Parts()
    whole = parts.walk(tree, "")
    units = [one for one in dict.fromkeys([*parts.characters, *parts.units, whole]) if one]
    texts = [HostileText("", (one,), after) for one in units for after in ("", END)]
    texts += [HostileText(*one, END) for one in parts.repeats]
    for pair in itertools.permutations(units[:most_units], 2):
        texts += [HostileText("", pair, ""), HostileText("", pair, END, split=True)]
    texts += [HostileText("", tuple(pair), "", split=True) for pair in BRACKETS]
    return list(dict.fromkeys(texts))


def _ascii(pattern: re.Pattern[Any]) -> int:
    is_ascii = isinstance(pattern.pattern, bytes) or pattern.flags & re.ASCII
    return re.ASCII if is_ascii else 0


class _Parts:
    """Collects from a parsed pattern what its repetitions accept."""

    def __init__(self) -> None:
        self.characters: dict[str, None] = {}
        # What precedes a repetition, and its body: `"` and `\\.` of `"(?:\\.)*"`.
        self.repeats: dict[tuple[str, tuple[str]], None] = {}
        self.units: dict[str, None] = {}

    def walk(self, nodes: Any, before: str) -> str:
        """Return a text that the nodes accept. `before` is one for the nodes to their left."""
        text = ""
        for code, argument in nodes:
            text += self._node(code, argument, before + text)
        return text

    def _node(self, code: Any, argument: Any, before: str) -> str:
        if code in (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN):
            accepted = _characters(code, argument)
            self.characters.update(dict.fromkeys(accepted))
            return accepted[:1]
        if code is codes.BRANCH:
            alternatives = [self.walk(one, before) for one in argument[1]]
            return alternatives[0]
        if code is codes.SUBPATTERN:
            return self.walk(argument[-1], before)
        if code is codes.ATOMIC_GROUP:
            return self.walk(argument, before)
        if code in (codes.ASSERT, codes.ASSERT_NOT):
            self.walk(argument[1], before)
            return ""
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            return self._repeat(*argument, before)
        return ""

    def _repeat(self, least: int, most: int, nodes: Any, before: str) -> str:
        body = self.walk(nodes, before)
        if body and most > 1:
            self.repeats[before, (body,)] = None
            self.units.update(dict.fromkeys([body, before, before + body]))
        return body * max(least, 1) if least or len(body) == 1 else ""


def _characters(code: Any, argument: Any) -> str:
    """Return some of the characters that a node accepts."""
    if code is codes.ANY:
        return "a"
    if code is codes.LITERAL:
        return chr(argument)
    if code is codes.NOT_LITERAL:
        return next(one for one in OTHERS if ord(one) != argument)
    if argument[0][0] is codes.NEGATE:
        refused = "".join(_of_item(*one) for one in argument[1:])
        ranges = [one for kind, one in argument[1:] if kind is codes.RANGE]
        others = [
            one
            for one in OTHERS
            if one not in refused and not any(low <= ord(one) <= high for low, high in ranges)
        ]
        return "".join(others[:2])
    return "".join(_of_item(*one)[:2] for one in argument[:8])


def _of_item(code: Any, argument: Any) -> str:
    if code is codes.LITERAL:
        return chr(argument)
    if code is codes.RANGE:
        return chr(argument[0])
    return CATEGORIES.get(argument, "")
