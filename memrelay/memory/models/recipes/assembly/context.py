"""An assembled context with its trace and figures."""

from dataclasses import dataclass

from memrelay.memory.models.recipes.assembly.combine import ContextItem
from memrelay.memory.models.recipes.assembly.rules import MatchedRule


@dataclass(frozen=True, slots=True)
class CallError:
    """Why a recipe delivered nothing."""

    code: str
    """The kind of error."""
    message: str
    """The problem."""


@dataclass(frozen=True, slots=True)
class MemoryCall:
    """The run of a recipe."""

    memory_id: str
    """The recipe."""
    reason: str
    """`explicit`, or `rule ENGINE/RULE`."""
    success: bool
    """Whether the recipe ran to its end."""
    items: int
    """The number of items that it delivered."""
    duration_ms: float
    """The time from its start to its end, milliseconds."""
    error: CallError | None
    """Why it failed; null on success."""


@dataclass(frozen=True, slots=True)
class Trace:
    """How a context was assembled."""

    memory_calls: tuple[MemoryCall, ...]
    """The recipes: explicit ones, then those of rules. Failed and late ones included."""
    rules_applied: tuple[MatchedRule, ...]
    """The rules whose conditions hold."""
    variables_used: tuple[str, ...]
    """The variables that rules and recipes read."""
    missing_variables: tuple[str, ...]
    """The variables that recipes read and that have no value."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Figures of a context."""

    token_estimate: int
    """The tokens of all items."""
    total_items: int
    """The number of items."""
    truncated: bool
    """Whether `max_tokens` or `max_sources` left something out."""
    duration_ms: float
    """The time of the assembly, milliseconds."""


@dataclass(frozen=True, slots=True)
class AssembledContext:
    """A context for a prompt."""

    context: dict[str, tuple[ContextItem, ...]]
    """The items by section; empty sections are left out."""
    text: str
    """The items as one fenced text; "" without items."""
    trace: Trace
    """How the context was assembled."""
    meta: Meta
    """Figures."""
