"""`output_template`: how a record reads as text (seed 000). Tokens and a few filters, no statements: it cannot loop or grow."""
from collections.abc import Iterable, Iterator

import orjson
from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from memory.errors import Refused, ResultTooLarge
from memory.record import Record

TOKENS = frozenset({"content", "kind", "scope", "guid", "source", "tags", "created_at", "updated_at", "score"})
FILTERS = frozenset({"upper", "lower", "title", "capitalize", "trim", "truncate", "default", "round", "tojson"})
ALLOWED = (nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Filter, nodes.Const, nodes.Keyword)
MAX_OUTPUT = 256 * 1024   # characters
MAX_NUMBER = 10_000       # in a template; `round` makes powers of ten of it
MAX_FILTERS = 10          # one on another; compiling takes time with their square

_SANDBOX = ImmutableSandboxedEnvironment(keep_trailing_newline=True, undefined=StrictUndefined)


class BadTemplate(ValueError):
    """The template holds what is not allowed; the text names it."""


class OutputTemplate:
    """A checked template. The data of a message never becomes one."""

    def __init__(self, source: str) -> None:
        """Raises BadTemplate."""
        try:
            tree = _SANDBOX.parse(source)
        except TemplateSyntaxError as error:
            raise BadTemplate(f"output_template: {error.message} (line {error.lineno})") from error
        for node in tree.find_all(nodes.Node):
            _check(node)
        self._template = _SANDBOX.from_string(source)

    def render(self, records: Iterable[Record]) -> str:
        """Each record in turn, with nothing in between. Raises ResultTooLarge, or Refused where a filter cannot work."""
        parts, size = [], 0
        try:
            for part in self._parts(records):
                parts.append(part)
                size += len(part)
                if size > MAX_OUTPUT:
                    raise ResultTooLarge(f"the text is longer than {MAX_OUTPUT} characters: set `limit` in wf_webhook_args")
        except (TemplateError, TypeError, ArithmeticError, AssertionError) as error:
            raise Refused(f"output_template cannot be rendered: {error}") from error
        return "".join(parts)

    def _parts(self, records: Iterable[Record]) -> Iterator[str]:
        """Piece by piece, so that a text that grows too long is stopped on the way."""
        for record in records:
            yield from self._template.generate(record._asdict() | {"tags": ", ".join(orjson.loads(record.tags))})


def _check(node: nodes.Node) -> None:
    if isinstance(node, nodes.Name) and node.name not in TOKENS:
        raise BadTemplate(f"output_template: unknown token {{{{{node.name}}}}}; tokens are {', '.join(sorted(TOKENS))}")
    if isinstance(node, nodes.Filter) and node.name not in FILTERS:
        raise BadTemplate(f"output_template: unknown filter {node.name!r}; filters are {', '.join(sorted(FILTERS))}")
    if isinstance(node, nodes.Filter) and _filters(node) > MAX_FILTERS:
        raise BadTemplate(f"output_template: more than {MAX_FILTERS} filters one on another")
    if isinstance(node, nodes.Const) and isinstance(node.value, int | float) and node.value > MAX_NUMBER:
        raise BadTemplate(f"output_template: {node.value:.0f} is too large a number; at most {MAX_NUMBER}")
    if not isinstance(node, ALLOWED):
        raise BadTemplate(f"output_template: {type(node).__name__} is not allowed; it takes tokens and filters only")


def _filters(node: nodes.Node | None) -> int:
    count = 0
    while isinstance(node, nodes.Filter):
        node, count = node.node, count + 1
    return count
