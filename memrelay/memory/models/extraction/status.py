"""The operation on extraction: what its agents have done, and what waits."""

from dataclasses import dataclass

import orjson

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment
from memrelay.memory.models.extraction.progress import Progress, ProgressTable
from memrelay.memory.models.extraction.settings import Settings
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.view import format_optional


@dataclass(frozen=True, slots=True)
class GetStatus:
    """No input."""


@dataclass(frozen=True, slots=True)
class ExtractorView:
    """The work of an agent with the block `extract` or `summarize`. Counts are totals."""

    pipeline: str
    agent: str
    block: str
    is_waiting: bool
    """Whether the model is asked now."""
    turns_waiting: int
    """Turns that it has not read. It counts up to 10,000."""
    batches: int
    """Batches of turns that became records."""
    created: int
    """New facts or summaries."""
    updated: int
    """Writes that changed an existing one."""
    skipped: int
    """Facts that were known."""
    held: int
    """Writes that wait, or waited, for review."""
    refused: int
    """Writes that a policy refused or dropped."""
    invalid: int
    """Facts that were left out because they break a rule, such as a turn of another batch."""
    rejected: int
    """Batches that were left out after the last retry, because no answer was usable."""
    rejected_turns: int
    """Turns in these batches."""
    calls_left: int
    """Calls that the budget still allows in this period."""
    tokens_left: int | None
    """Tokens that the budget still allows; null without such a budget."""
    period_ends_at: Moment | None
    """When the budget is full again."""
    failures: int
    """Calls without an answer since the last success."""
    retry_at: Moment | None
    """When the model is asked again after a failure."""
    last_error: str
    """The last fault; "" for none."""
    last_error_at: Moment | None
    last_run_at: Moment | None
    """When the agent last looked for turns."""


@dataclass(frozen=True, slots=True)
class ExtractionStatus:
    """The agents of a store that read its turns."""

    items: tuple[ExtractorView, ...]


@operation("extraction.status", access="read", mutates=False)
def status(tx: Transaction, request: GetStatus, context: Context) -> ExtractionStatus:
    """Return how far the blocks `extract` and `summarize` have read, and what became of it."""
    table = tx.table(ProgressTable)
    mine = [one for one in table.list_all() if context.pipeline in ("", one.pipeline)]
    return ExtractionStatus(tuple(_view(table, one, context.now_ms) for one in mine))


def _view(table: ProgressTable, progress: Progress, now_ms: int) -> ExtractorView:
    settings = Settings(**orjson.loads(progress.settings))
    is_over = now_ms >= progress.period_ms
    calls, tokens = (0, 0) if is_over else (progress.calls, progress.tokens)
    budget = settings.budget_tokens
    return ExtractorView(
        progress.pipeline,
        progress.agent,
        progress.block,
        bool(progress.call) and now_ms < progress.until_ms,
        table.count_waiting(progress, settings.kind, settings.roles, settings.wants, now_ms),
        progress.batches,
        progress.created,
        progress.updated,
        progress.skipped,
        progress.held,
        progress.refused,
        progress.invalid,
        progress.rejected,
        progress.rejected_turns,
        max(settings.budget_calls - calls, 0),
        None if budget is None else max(budget - tokens, 0),
        None if is_over else format_optional(progress.period_ms),
        progress.failures,
        format_optional(progress.retry_ms) if progress.retry_ms > now_ms else None,
        progress.error,
        format_optional(progress.error_ms or None),
        format_optional(progress.ran_ms or None),
    )
