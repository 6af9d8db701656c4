"""The part of `templates` that needs jinja2: compiling a checked template, and rendering."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

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

from memrelay.blocks.templates import (
    FILTERS,
    MAX_FILTERS,
    MAX_NUMBER,
    MAX_OUTPUT,
    MAX_PROMPT,
    MAX_SOURCE,
    MAX_VALUE,
    TOKENS,
    UNTIL,
    BadTemplate,
    check_time,
)
from memrelay.memory.errors import Refused, ResultTooLarge
from memrelay.pipelines.expressions import to_text

ALLOWED = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.Name,
    nodes.Filter,
    nodes.Const,
    nodes.Keyword,
)


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
        check_time(context[UNTIL])
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
_URL_SANDBOX = _JsonSandbox(
    keep_trailing_newline=True,
    undefined=ChainableUndefined,
    finalize=lambda value: quote(_print_json(value), safe=""),
)
_URL_SANDBOX.filters = _SANDBOX.filters
_URL_SANDBOX.globals = {}


class _Rules(NamedTuple):
    """What the templates of one argument may contain."""

    tokens: frozenset[str]  # empty for any
    filters: frozenset[str]
    max_source: int
    sandbox: Environment = _SANDBOX
    allowed: tuple[type[nodes.Node], ...] = ALLOWED


_JSON_RULES = _Rules(
    frozenset(), FILTERS, MAX_SOURCE, _JSON_SANDBOX, (*ALLOWED, nodes.Getattr, nodes.Getitem)
)
_RULES = {
    "output_template": _Rules(TOKENS, FILTERS, MAX_SOURCE),
    "template": _JSON_RULES,
    "url": _JSON_RULES._replace(sandbox=_URL_SANDBOX),
    "system_prompt": _Rules(frozenset({"user_context"}), frozenset(), MAX_PROMPT),
}


# A bundle is checked and then served, and several agents often have the same template.
@lru_cache(maxsize=256)
def compile_template(source: str, argument: str) -> Template:
    """Return the template of an argument. Raises BadTemplate."""
    rules = _RULES[argument]
    if len(source) > rules.max_source:
        raise BadTemplate(
            f"{argument}: {len(source)} characters; a template has at most {rules.max_source}"
        )
    try:
        tree = rules.sandbox.parse(source)
    except TemplateSyntaxError as error:
        raise BadTemplate(f"{argument}: {error.message} (line {error.lineno})") from error
    except RecursionError as error:
        raise BadTemplate(f"{argument}: nested too deeply") from error
    except ValueError as error:  # a number with thousands of digits
        raise BadTemplate(f"{argument}: {error}") from error
    _check(tree, argument)
    sandbox = rules.sandbox
    try:
        code = sandbox.compile(tree)
    except (RecursionError, SyntaxError) as error:  # SyntaxError: Python's own limit
        raise BadTemplate(f"{argument}: nested too deeply") from error
    return Template.from_code(sandbox, code, sandbox.make_globals(None))


def _check(tree: nodes.Node, argument: str) -> None:
    """Check every node. Raises BadTemplate."""
    rest = [(tree, 0)]  # a node, and the number of filters around it
    while rest:
        node, depth = rest.pop()
        depth += isinstance(node, nodes.Filter)
        if depth > MAX_FILTERS:
            raise BadTemplate(f"{argument}: more than {MAX_FILTERS} nested filters")
        _check_node(node, argument)
        rest += [(child, depth) for child in node.iter_child_nodes()]


def _check_node(node: nodes.Node, argument: str) -> None:
    rules = _RULES[argument]
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


def find_tokens(source: str) -> set[str]:
    """Return the tokens of a valid template."""
    return {node.name for node in _SANDBOX.parse(source).find_all(nodes.Name)}


def is_expression(source: str) -> bool:
    """Return whether a valid template over JSON consists of one token."""
    if not source.strip().startswith("{{"):
        return False
    body = _JSON_SANDBOX.parse(source.strip()).body
    parts = body[0].nodes if len(body) == 1 and isinstance(body[0], nodes.Output) else ()
    return len(parts) == 1 and not isinstance(parts[0], nodes.TemplateData)


def compile_expression(source: str) -> Callable[[dict[str, Any]], Any]:
    """Return a function that evaluates a template of one token over JSON. Raises BadTemplate.

    The function raises Refused and ResultTooLarge.
    """
    compile_template(source, "template")
    inner = source.strip().removeprefix("{{").removesuffix("}}")
    expression = _JSON_SANDBOX.compile_expression(inner)

    def evaluate(tokens: dict[str, Any]) -> Any:
        try:
            return expression(tokens)
        except (TemplateError, TypeError, ArithmeticError, AssertionError, UnicodeError) as error:
            raise Refused(f"template cannot be rendered: {error}") from error

    return evaluate


def join(texts: Iterator[str], argument: str) -> str:
    """Return the rendered text. Raises ResultTooLarge, and Refused if a filter fails."""
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
