"""The step `rewrite_query`."""

from dataclasses import dataclass

from memrelay.memory.models.recipes.execution.items import read_source, result_text
from memrelay.memory.models.recipes.step import StepCall, step


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteQuery:
    """Parameters of `rewrite_query`."""

    source: str = ""
    """Alias of the result to rewrite. The default is the query of the run."""


@step("rewrite_query", "input", reads=("list", "groups", "text"), returns=("text",))
def rewrite_query(params: RewriteQuery, call: StepCall) -> str:
    """Return the query in lower case and with single spaces, and set it for the run."""
    is_alias = params.source not in ("", "query")
    text = result_text(read_source(call, params.source)) if is_alias else call.query
    call.new_query = " ".join(text.lower().split())
    return call.new_query
