"""`output_template`: formats a record as text (seed 000).

A template has tokens and filters but no statements, so it cannot loop.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import (
    ChainableUndefined,
    Environment,
    StrictUndefined,
    Template,
    TemplateError,
    TemplateSyntaxError,
    Undefined,
    nodes,
    pass_context,
)
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from memrelay.memory.errors import Refused, ResultTooLarge
from memrelay.memory.records.data import load_json
from memrelay.memory.records.record import Record
from memrelay.pipelines.expressions import to_text

TOKENS = frozenset(
    {"content", "kind", "scope", "guid", "source", "tags", "created_at", "updated_at", "score"}
)
FILTERS = frozenset(
    {"upper", "lower", "title", "capitalize", "trim", "truncate", "default", "round", "tojson"}
)
ALLOWED = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.Name,
    nodes.Filter,
    nodes.Const,
    nodes.Keyword,
)
# Characters of a template. Parsing and compiling takes up to 10 microseconds for each.
MAX_SOURCE = 16 * 1024
MAX_TOGETHER = 32 * 1024  # characters of all templates of a bundle
MAX_OUTPUT = 256 * 1024  # bytes
# Characters of a filter's input or output. `title` takes 0.15 s for these, `tojson` doubles them.
MAX_VALUE = 2 * MAX_OUTPUT
# A number, or the length of a text, in a template or an argument: `round` computes powers of ten of
# it, `trim` tries each character.
MAX_NUMBER = 10_000
MAX_FILTERS = 10  # nested filters; the time to compile them grows with their square
MAX_RENDER_S = 0.25  # processor time
MAX_PROMPT = 64 * 1024  # characters of a system prompt, which has one token and no filters
_UNTIL = "_until"  # processor time at which rendering must end; only filters see it


def _bounded(name: str) -> Callable[..., Any]:
    """Return the filter with limits on size and time.

    It takes the context, so that jinja2 computes nothing while it compiles a template.
    """
    # `default` and `truncate` accept any length: one returns its input, the other shortens it.
    has_long_values = name not in ("default", "truncate")
    has_long_arguments = name != "default"

    @pass_context
    def apply(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        _check_text(name, value if has_long_values else "")
        for argument in (*args, *kwargs.values()) if has_long_arguments else ():
            _check_argument(name, argument)
        result = _FILTERS.call_filter(name, value, args, kwargs, context=context)
        _check_text(name, result if has_long_values else "")
        _check_time(context[_UNTIL])
        return result

    return apply


def _check_text(name: str, value: Any) -> None:
    if isinstance(value, str) and len(value) > MAX_VALUE:
        raise ResultTooLarge(
            f"output_template: the text of the filter {name} is longer than {MAX_VALUE} "
            "characters: truncate it first"
        )


def _check_argument(name: str, argument: Any) -> None:
    size = len(argument) if isinstance(argument, str) else argument
    if isinstance(size, int) and size > MAX_NUMBER:
        raise ResultTooLarge(
            f"output_template: an argument of the filter {name} is larger than {MAX_NUMBER}"
        )


def _check_time(until: float) -> None:
    if time.thread_time() > until:
        raise Refused(
            f"output_template takes longer than {MAX_RENDER_S:g} s: set `limit` in "
            "wf_webhook_args, or use fewer filters"
        )


_FILTERS = Environment()
_SANDBOX = ImmutableSandboxedEnvironment(keep_trailing_newline=True, undefined=StrictUndefined)
_SANDBOX.filters = {name: _bounded(name) for name in FILTERS}


class _JsonSandbox(ImmutableSandboxedEnvironment):
    """Reads the fields of JSON values, and no attributes of Python objects."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return a field of an object or an element of a list, else an undefined value."""
        is_field = isinstance(obj, dict) and isinstance(argument, str) and argument in obj
        is_element = (
            isinstance(obj, list) and type(argument) is int and -len(obj) <= argument < len(obj)
        )
        return obj[argument] if is_field or is_element else self.undefined(name=str(argument))


def _print_json(value: Any) -> str:
    """Return a value as text. A missing one and null are empty."""
    return "" if value is None or isinstance(value, Undefined) else to_text(value)


_JSON_SANDBOX = _JsonSandbox(
    keep_trailing_newline=True, undefined=ChainableUndefined, finalize=_print_json
)
_JSON_SANDBOX.filters = _SANDBOX.filters
_JSON_SANDBOX.globals = {}


class BadTemplate(ValueError):
    """The template is invalid. The text names the part."""


class _Rules(NamedTuple):
    """What the templates of one argument may contain."""

    argument: str
    tokens: frozenset[str]  # empty for any
    filters: frozenset[str]
    max_source: int
    sandbox: Environment = _SANDBOX
    allowed: tuple[type[nodes.Node], ...] = ALLOWED


_OUTPUT = _Rules("output_template", TOKENS, FILTERS, MAX_SOURCE)
_JSON = _Rules(
    "template",
    frozenset(),
    FILTERS,
    MAX_SOURCE,
    _JSON_SANDBOX,
    (*ALLOWED, nodes.Getattr, nodes.Getitem),
)
_PROMPT = _Rules("system_prompt", frozenset({"user_context"}), frozenset(), MAX_PROMPT)


class PromptTemplate:
    """A checked system prompt with the token `user_context`. Raises BadTemplate."""

    def __init__(self, source: str) -> None:
        self._template = _compiled(source, _PROMPT)

    def render(self, user_context: str) -> str:
        return self._template.render(user_context=user_context)


class JsonTemplate:
    """A checked template over a JSON value. Raises BadTemplate."""

    def __init__(self, source: str) -> None:
        self._template = _compiled(source, _JSON)

    def render(self, value: Any) -> str:
        """Return the text. The tokens are the fields of an object; another value is `value`.

        Raises ResultTooLarge, and Refused if a filter fails or the time limit is reached.
        """
        until = time.thread_time() + MAX_RENDER_S
        fields = value if isinstance(value, dict) else {"value": value}
        return _join(self._template.generate(fields | {_UNTIL: until}), "template")


class OutputTemplate:
    """A checked template. Raises BadTemplate. Text of a message is never used as a template."""

    def __init__(self, source: str) -> None:
        self._template = _compiled(source, _OUTPUT)

    @staticmethod
    def tokens(source: str) -> set[str]:
        """Return the tokens of a valid template."""
        return {node.name for node in _SANDBOX.parse(source).find_all(nodes.Name)}

    def render(self, records: Iterable[Record]) -> str:
        """Return the formatted records, joined without a separator.

        Raises ResultTooLarge, and Refused if a filter fails or the time limit is reached.
        """
        return _join(self._parts(records, time.thread_time() + MAX_RENDER_S))

    def render_each(self, records: Iterable[Record]) -> Iterator[str]:
        """Yield the formatted records one by one. All share the time limit. Raises as `render`."""
        until = time.thread_time() + MAX_RENDER_S
        return (_join(self._parts([record], until)) for record in records)

    def _parts(self, records: Iterable[Record], until: float) -> Iterator[str]:
        """Yield the text in parts, so that a text that is too long ends early."""
        for record in records:
            _check_time(until)
            tags = ", ".join(load_json(record.tags, record.guid))
            yield from self._template.generate(record._asdict() | {"tags": tags, _UNTIL: until})


def _join(texts: Iterator[str], argument: str = "output_template") -> str:
    parts, size = [], 0
    try:
        for part in texts:
            parts.append(part)
            size += len(part) if part.isascii() else len(part.encode())
            if size > MAX_OUTPUT:
                raise ResultTooLarge(
                    f"the text of {argument} is longer than {MAX_OUTPUT} bytes: set "
                    "`limit` in wf_webhook_args, or shorten the template"
                )
    except (TemplateError, TypeError, ArithmeticError, AssertionError, UnicodeError) as error:
        raise Refused(f"{argument} cannot be rendered: {error}") from error
    return "".join(parts)


# A bundle is checked and then served, and several agents often have the same template.
@lru_cache(maxsize=256)
def _compiled(source: str, rules: _Rules) -> Template:
    name = rules.argument
    if len(source) > rules.max_source:
        raise BadTemplate(
            f"{name}: {len(source)} characters; a template has at most {rules.max_source}"
        )
    try:
        tree = rules.sandbox.parse(source)
    except TemplateSyntaxError as error:
        raise BadTemplate(f"{name}: {error.message} (line {error.lineno})") from error
    except RecursionError as error:
        raise BadTemplate(f"{name}: nested too deeply") from error
    except ValueError as error:  # a number with thousands of digits
        raise BadTemplate(f"{name}: {error}") from error
    _check(tree, rules)
    sandbox = rules.sandbox
    try:
        code = sandbox.compile(tree)
    except (RecursionError, SyntaxError) as error:  # SyntaxError: Python's own limit
        raise BadTemplate(f"{name}: nested too deeply") from error
    return Template.from_code(sandbox, code, sandbox.make_globals(None))


def _check(tree: nodes.Node, rules: _Rules) -> None:
    """Check every node. Raises BadTemplate."""
    rest = [(tree, 0)]  # a node, and the number of filters around it
    while rest:
        node, depth = rest.pop()
        depth += isinstance(node, nodes.Filter)
        if depth > MAX_FILTERS:
            raise BadTemplate(f"{rules.argument}: more than {MAX_FILTERS} nested filters")
        _check_node(node, rules)
        rest += [(child, depth) for child in node.iter_child_nodes()]


def _check_node(node: nodes.Node, rules: _Rules) -> None:
    argument = rules.argument
    if isinstance(node, nodes.Name) and rules.tokens and node.name not in rules.tokens:
        raise BadTemplate(
            f"{argument}: unknown token {{{{{node.name}}}}}; tokens are "
            f"{', '.join(sorted(rules.tokens))}"
        )
    if isinstance(node, nodes.Filter) and node.name not in rules.filters:
        raise BadTemplate(
            f"{argument}: unknown filter {node.name!r}; filters are "
            f"{', '.join(sorted(rules.filters)) or 'not available here'}"
        )
    if (
        isinstance(node, nodes.Const)
        and isinstance(node.value, int | float)
        and node.value > MAX_NUMBER
    ):
        raise BadTemplate(
            f"{argument}: the number {node.value:.0f} is too large; at most {MAX_NUMBER}"
        )
    if not isinstance(node, rules.allowed):
        raise BadTemplate(
            f"{argument}: {type(node).__name__} is not allowed; use tokens and filters only"
        )
