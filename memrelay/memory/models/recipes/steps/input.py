"""Steps that make the query of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memrelay.memory.models.recipes.execution.items import compact, read_source, result_text
from memrelay.memory.models.recipes.step import StepCall, step

# Parts of the intent, in the order in which the first text is taken.
PARTS = ("keywords", "action", "context", "query")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeriveQuery:
    source: str = "intent"
    """`intent`, one part of it (`keywords`, `action`, `context`, `query`), or an alias."""


@step("derive_query", "input", reads=("list", "groups", "text"), returns=("text",))
def derive_query(params: DeriveQuery, call: StepCall) -> str:
    """Return the query from the first non-empty part of the intent, and set it for the run."""
    call.new_query = _derive(params.source or "intent", call)
    return call.new_query


def _derive(source: str, call: StepCall) -> str:
    if source != "intent" and source not in PARTS:
        return result_text(read_source(call, source))
    intent: Mapping[str, Any] = call.run["intent"]
    parts = PARTS if source == "intent" else (source,)
    texts = (_join_part(intent.get(part)) for part in parts)
    return next(filter(None, texts), "")


def _join_part(part: Any) -> str:
    """Return a text, a list joined by spaces, or the scalar values of an object."""
    if isinstance(part, Mapping):
        part = [value for value in part.values() if isinstance(value, str | int | float)]
    if isinstance(part, list):
        return " ".join(map(compact, part))
    return "" if part is None else compact(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteQuery:
    source: str = ""
    """Alias of the result to rewrite. The default is the query of the run."""


@step("rewrite_query", "input", reads=("list", "groups", "text"), returns=("text",))
def rewrite_query(params: RewriteQuery, call: StepCall) -> str:
    """Return the query in lower case and with single spaces, and set it for the run."""
    is_alias = params.source not in ("", "query")
    text = result_text(read_source(call, params.source)) if is_alias else call.query
    call.new_query = " ".join(text.lower().split())
    return call.new_query
