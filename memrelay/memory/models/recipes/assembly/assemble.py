"""Assemble a context: run recipes one after the other, and combine their items."""

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import orjson

from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import InvalidInput, RecordNotFound, ResultTooLarge
from memrelay.memory.models.recipes.assembly.combine import (
    ContextItem,
    RecipeItems,
    combine,
    count_tokens,
    render,
)
from memrelay.memory.models.recipes.assembly.context import (
    AssembledContext,
    CallError,
    MemoryCall,
    Meta,
    Trace,
)
from memrelay.memory.models.recipes.assembly.definitions import Brief
from memrelay.memory.models.recipes.assembly.request import Request
from memrelay.memory.models.recipes.assembly.selection import Selection, select_recipes
from memrelay.memory.models.recipes.compile import load_recipe
from memrelay.memory.models.recipes.execution.items import flatten, item_text
from memrelay.memory.models.recipes.execution.run import run_recipe
from memrelay.memory.models.recipes.execution.variables import RunInput
from memrelay.memory.operations import Context

# Returns seconds.
Clock = Callable[[], float]
# Between two steps, an assembly receives the transaction to continue with.
Assembly = Generator[None, Transaction, AssembledContext]


class _Late(Exception):
    """The time of the assembly is over."""


@dataclass(slots=True)
class _Run:
    """An assembly while it runs. `tx` is the present transaction."""

    tx: Transaction
    request: Request
    context: Context
    clock: Clock
    began: float
    calls: dict[str, MemoryCall] = field(default_factory=dict)
    delivered: dict[str, RecipeItems] = field(default_factory=dict)
    used: dict[str, None] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)

    def since_ms(self, began: float) -> float:
        """Return the time since a moment, milliseconds."""
        return round((self.clock() - began) * 1000, 3)

    def is_late(self) -> bool:
        """Return whether `timeout_ms` has passed."""
        return self.since_ms(self.began) > self.request.timeout_ms


def assemble(
    tx: Transaction, request: Request, context: Context, clock: Clock = time.monotonic
) -> Assembly:
    """Run the recipes of a request, the highest weight first, and combine their items.

    Raises ResultTooLarge: when the context does not fit into an answer.
    """
    run = _Run(tx, request, context, clock, clock())
    selection = select_recipes(tx, request)
    run.used |= dict.fromkeys(selection.evaluation.used)
    for ident in selection.unknown:
        error = CallError("unknown_recipe", f'no recipe has the id "{ident}"')
        run.calls[ident] = MemoryCall(ident, selection.reasons[ident], False, 0, 0.0, error)
    for brief in selection.briefs:
        yield from _call(brief, selection.reasons[brief.id], run)
    found = _finish(selection, run)
    if len(orjson.dumps(found)) > context.result_bytes:
        raise ResultTooLarge(
            f"the context has more than {context.result_bytes} bytes; set constraints.max_tokens"
        )
    return found


def _call(brief: Brief, reason: str, run: _Run) -> Generator[None, Transaction, None]:
    """Run a recipe and note its items, or why it failed."""
    began, items, error = run.clock(), tuple[ContextItem, ...](), None
    try:
        result = yield from _drive(brief, run)
        items, error = _read_result(brief, result, run)
    except _Late:
        error = CallError("timeout", f"the assembly takes longer than {run.request.timeout_ms} ms")
    except InvalidInput as refused:
        rules = "; ".join(fault.message for fault in refused.faults)
        error = CallError(refused.faults[0].code, rules)
        run.missing |= dict.fromkeys(brief.missing(run.request.inputs))
    except RecordNotFound as gone:
        # It was deleted since the assembly began.
        error = CallError("unknown_recipe", str(gone))
    if error is None:
        run.delivered[brief.id] = RecipeItems(brief.section, brief.max_items, items)
    run.calls[brief.id] = MemoryCall(
        brief.id, reason, error is None, len(items), run.since_ms(began), error
    )


def _drive(brief: Brief, run: _Run) -> Generator[None, Transaction, dict[str, Any]]:
    """Run a recipe step by step until the time is over. Raises _Late."""
    if run.is_late():
        raise _Late
    steps = _start(brief, run)
    try:
        next(steps)
        while True:
            run.tx = yield
            if run.is_late():
                raise _Late
            steps.send(run.tx)
    except StopIteration as end:
        if run.is_late():
            raise _Late from None
        result: dict[str, Any] = end.value
        return result
    finally:
        steps.close()


def _start(brief: Brief, run: _Run) -> Generator[None, Transaction, dict[str, Any]]:
    """Begin a recipe. Raises RecordNotFound and InvalidInput."""
    inputs = run.request.inputs
    given = RunInput(inputs.text, inputs.additional, inputs.scopes, run.request.thread_id)
    return run_recipe(run.tx, load_recipe(run.tx, brief.id), given, run.context)


def _read_result(
    brief: Brief, result: dict[str, Any], run: _Run
) -> tuple[tuple[ContextItem, ...], CallError | None]:
    """Return the items of a result, or its error."""
    run.used |= dict.fromkeys(result["variables"]["used"])
    run.missing |= dict.fromkeys(result["variables"]["missing"])
    if not result["success"]:
        return (), CallError(result["error"]["code"], result["error"]["message"])
    output = result["finalOutput"]
    if isinstance(output, str):
        pairs = [(brief.id, output)] if output else []
    else:
        listed = enumerate(flatten(output or []))
        pairs = [(str(one.get("id", at)), item_text(one)) for at, one in listed]
    return tuple(
        ContextItem(
            ident, text, brief.id, brief.label, brief.priority, brief.weight, count_tokens(text)
        )
        for ident, text in pairs
    ), None


def _finish(selection: Selection, run: _Run) -> AssembledContext:
    """Combine the items of all recipes in the order of the request."""
    in_order = [ident for ident in selection.reasons if ident in run.delivered]
    combined = combine([run.delivered[ident] for ident in in_order], run.request.max_tokens)
    items = [item for one in combined.sections.values() for item in one]
    calls = [run.calls[ident] for ident in selection.reasons if ident in run.calls]
    return AssembledContext(
        combined.sections,
        render(combined.sections),
        Trace(tuple(calls), selection.evaluation.matched, tuple(run.used), tuple(run.missing)),
        Meta(
            sum(item.tokens for item in items),
            len(items),
            combined.truncated or selection.left_out > 0,
            run.since_ms(run.began),
        ),
    )
