"""`output_template`: formats a record as text (seed 000).

A template has tokens and filters but no statements, so it cannot loop.
"""

import importlib
import time
from collections.abc import Iterable, Iterator
from typing import Any

from memrelay.memory.errors import Refused
from memrelay.memory.records.data import load_json
from memrelay.memory.records.record import Record

TOKENS = frozenset(
    {"content", "kind", "scope", "guid", "source", "tags", "created_at", "updated_at", "score"}
)
FILTERS = frozenset(
    {"upper", "lower", "title", "capitalize", "trim", "truncate", "default", "round", "tojson"}
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
UNTIL = "_until"  # processor time at which rendering must end; only filters see it


class BadTemplate(ValueError):
    """The template is invalid. The text names the part."""


class PromptTemplate:
    """A checked system prompt with the token `user_context`. Raises BadTemplate."""

    def __init__(self, source: str) -> None:
        self._template = _load_engine().compile_template(source, "system_prompt")

    def render(self, user_context: str) -> str:
        text: str = self._template.render(user_context=user_context)
        return text


class JsonTemplate:
    """A checked template over a JSON value. Raises BadTemplate.

    With `quotes`, each inserted value is percent-encoded for a part of a URL.
    """

    def __init__(self, source: str, *, quotes: bool = False) -> None:
        self._engine = _load_engine()
        self._template = self._engine.compile_template(source, "url" if quotes else "template")

    def render(self, value: Any, until: float | None = None) -> str:
        """Return the text. The tokens are the fields of an object; another value is `value`.

        `until` is the processor time at which rendering must end. Raises ResultTooLarge, and
        Refused if a filter fails or the time limit is reached.
        """
        parts = self._template.generate(_tokens(value, until))
        text: str = self._engine.join(parts, "template")
        return text


class JsonExpression:
    """A template of one token, whose value stays JSON. Raises BadTemplate."""

    def __init__(self, source: str) -> None:
        self._evaluate = _load_engine().compile_expression(source)

    @staticmethod
    def matches(source: str) -> bool:
        """Return whether a valid template consists of one token."""
        return bool(_load_engine().is_expression(source))

    def evaluate(self, value: Any, until: float) -> Any:
        """Return the JSON value; None if it is missing. Raises as `JsonTemplate.render`."""
        return self._evaluate(_tokens(value, until))


def render_deadline() -> float:
    """Return the processor time of this thread at which rendering that begins now must end."""
    return time.thread_time() + MAX_RENDER_S


def _tokens(value: Any, until: float | None) -> dict[str, Any]:
    fields = value if isinstance(value, dict) else {"value": value}
    return fields | {UNTIL: render_deadline() if until is None else until}


class OutputTemplate:
    """A checked template. Raises BadTemplate. Text of a message is never used as a template."""

    def __init__(self, source: str) -> None:
        self._source, self._engine = source, _load_engine()
        self._template = self._engine.compile_template(source, "output_template")

    @property
    def tokens(self) -> set[str]:
        """The names of its tokens."""
        tokens: set[str] = self._engine.find_tokens(self._source)
        return tokens

    def render(self, records: Iterable[Record]) -> str:
        """Return the formatted records, joined without a separator.

        Raises ResultTooLarge, and Refused if a filter fails or the time limit is reached.
        """
        return self._join(records, time.thread_time() + MAX_RENDER_S)

    def render_each(self, records: Iterable[Record]) -> Iterator[str]:
        """Yield the formatted records one by one. All share the time limit. Raises as `render`."""
        until = time.thread_time() + MAX_RENDER_S
        return (self._join([record], until) for record in records)

    def _join(self, records: Iterable[Record], until: float) -> str:
        text: str = self._engine.join(self._parts(records, until), "output_template")
        return text

    def _parts(self, records: Iterable[Record], until: float) -> Iterator[str]:
        """Yield the text in parts, so that a text that is too long ends early."""
        for record in records:
            check_time(until)
            tags = ", ".join(load_json(record.tags, record.guid))
            yield from self._template.generate(record._asdict() | {"tags": tags, UNTIL: until})


def _load_engine() -> Any:
    """Return the module that needs jinja2: 15 ms and 3 MB, which most bundles do not need."""
    return importlib.import_module("memrelay.blocks.template_engine")


def check_time(until: float) -> None:
    if time.thread_time() > until:
        raise Refused(
            f"output_template takes longer than {MAX_RENDER_S:g} s: set `limit` in "
            "wf_webhook_args, or use fewer filters"
        )
