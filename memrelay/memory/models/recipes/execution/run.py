"""Run a recipe step by step, within bounds of time, items and bytes."""

import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import orjson

from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import Refused, SearchTooLong
from memrelay.memory.models.recipes.definition.recipe import CompiledStep, Recipe
from memrelay.memory.models.recipes.execution.conditions import count_items
from memrelay.memory.models.recipes.execution.items import flatten, format_items
from memrelay.memory.models.recipes.execution.templates import (
    MAX_BYTES,
    READING,
    BoundExceeded,
    Unresolved,
    check_early,
    fill_params,
)
from memrelay.memory.models.recipes.execution.variables import (
    Names,
    Prepared,
    RunInput,
    prepare_input,
)
from memrelay.memory.models.recipes.step import Result, StepCall, StepFailed
from memrelay.memory.operations import Context

# Bounds of a run. Its time is the processor time of its steps, seconds, so that a busy machine
# does not end a run.
MAX_S = 1.0
MAX_ITEMS = 1000
# Processor time of the reads of one step, seconds. A search has its own limit.
READ_S = 0.1
SEARCH_STEP = "vector_search"
# Steps whose parameters name their input.
OWN_SOURCE = ("derive_query", "rewrite_query", "merge")
Run = Generator[None, Transaction, dict[str, Any]]
Clock = Callable[[], float]


def run_recipe(
    tx: Transaction,
    recipe: Recipe,
    run_input: RunInput,
    context: Context,
    clock: Clock = time.thread_time,
) -> Run:
    """Run a recipe and return its result, the object that docs/recipes.md describes.

    The generator yields after each step, and receives the transaction for the next one. `clock`
    returns seconds. Raises InvalidInput before the first step, and VectorPending.
    """
    prepared = prepare_input(recipe, run_input, parse_uid(tx.memory_id))
    run = _RecipeRun(recipe, prepared, run_input.thread_id or "", context, clock)
    check_early(recipe.steps, run.names)
    for step in run.steps():
        run.perform(tx, step)
        tx = yield
    return run.result()


def parse_uid(memory_id: str) -> str:
    """Return the pipeline of a built-in store, "" for a store outside of `instances`."""
    parts = memory_id.split("/")
    return parts[1] if len(parts) == 3 and parts[0] == "instances" else ""


class _RecipeRun:
    """The state of one run."""

    def __init__(
        self, recipe: Recipe, prepared: Prepared, thread_id: str, context: Context, clock: Clock
    ) -> None:
        self._recipe, self._context, self._clock = recipe, context, clock
        self._results: dict[str, Result] = {}
        self._types: dict[str, str] = {}
        self.names = Names(prepared, self._results)
        # Alias of the latest list or groups.
        self._latest = ""
        self._bytes, self._seconds = 0, 0.0
        self._timing: dict[str, float] = {}
        self._error: dict[str, str] | None = None
        self._has_exited = False
        self._warnings: list[dict[str, str]] = []
        self._warn("", prepared.warnings)
        if recipe.status == "deprecated":
            self._warn("", [("deprecated", f'the recipe "{recipe.id}" is deprecated')])
        if not recipe.steps:
            self._warn("", [("empty_pipeline", "the recipe has no steps")])
        self._shared = {
            "memoryId": recipe.id,
            "memory": recipe.definition,
            "intent": prepared.intent,
            "query": self.names.query,
            "projectPath": prepared.values.get("project_path", ""),
            "threadId": thread_id,
            "variables": prepared.values,
        }

    def steps(self) -> Iterator[CompiledStep]:
        """Yield the steps to perform, those of a branch after its condition."""
        waiting = [iter(self._recipe.steps)]
        while waiting and not (self._error or self._has_exited):
            step = next(waiting[-1], None)
            if step is None:
                waiting.pop()
                continue
            yield step
            if step.type.name == "conditional" and step.alias in self._results:
                is_true = self._results[step.alias] is True
                waiting.append(iter(step.then_steps if is_true else step.else_steps))

    def perform(self, tx: Transaction, step: CompiledStep) -> None:
        """Run one step and keep its result or its error."""
        began = self._clock()
        try:
            result = self._run_step(tx, step)
            seconds = self._clock() - began
            self._check_bounds(result, seconds)
        except (StepFailed, BoundExceeded) as error:
            self._error = {"alias": step.alias, "code": error.code, "message": str(error)}
            seconds = self._clock() - began
        else:
            self._results[step.alias] = result
            self._types[step.alias] = step.type.name
            if isinstance(result, list | dict):
                self._latest = step.alias
            self._has_exited = step.type.name == "early_exit" and result is True
        self._seconds += seconds
        self._timing[step.alias] = round(seconds * 1000, 3)

    def _run_step(self, tx: Transaction, step: CompiledStep) -> Result:
        """Return the result of a step. Raises StepFailed unless the step skips errors."""
        try:
            return self._call(tx, step)
        except Unresolved as error:
            self._warn(step.alias, [("unresolved", str(error))])
        except SearchTooLong as error:
            raise BoundExceeded("timeout", f"{step.type.name}: {error}") from error
        except (StepFailed, Refused) as error:
            code = error.code if isinstance(error, StepFailed) else "bad_param"
            if step.on_error != "skip":
                raise StepFailed(code, str(error)) from error
            self._warn(step.alias, [(code, str(error))])
        return []

    def _call(self, tx: Transaction, step: CompiledStep) -> Result:
        params = step.params
        if params is None:
            params = fill_params(step, self.names.resolve)
        call = StepCall(
            tx, self._context, step.alias, [], self.names.query, self._results, self._shared
        )
        call.condition = step.condition
        if step.type.reads and step.type.name not in OWN_SOURCE:
            self._read_input(step, call)
        if step.type.category in READING and step.type.name != SEARCH_STEP:
            with tx.time_limit.bounded(READ_S, time.thread_time):
                result = step.type.run(params, call)
        else:
            result = step.type.run(params, call)
        if call.new_query is not None:
            self.names.query = call.new_query
        if call.warnings:
            self._warn(step.alias, call.warnings)
        return result  # type: ignore[no-any-return]

    def _read_input(self, step: CompiledStep, call: StepCall) -> None:
        source = step.source or self._latest
        result = self._results.get(source)
        if result is None:
            named = f'there is no result "{source}"' if source else "no step returned items before"
            call.warn("no_input", f"{named}; the input is empty")
            return
        call.items = flatten(result)
        call.source, call.source_type = source, self._types[source]

    def _check_bounds(self, result: Result, seconds: float) -> None:
        if (count := count_items(result)) > MAX_ITEMS:
            raise BoundExceeded("too_many_items", f"{count} items; a step may have {MAX_ITEMS}")
        self._bytes += len(orjson.dumps(result))
        if self._bytes > MAX_BYTES:
            raise BoundExceeded("too_large", f"the results exceed {MAX_BYTES} bytes")
        if self._seconds + seconds > MAX_S:
            raise BoundExceeded("timeout", f"the run takes longer than {MAX_S:g} s")

    def _warn(self, alias: str, warnings: list[tuple[str, str]]) -> None:
        self._warnings += [
            {"alias": alias, "code": code, "message": message} for code, message in warnings
        ]

    def result(self) -> dict[str, Any]:
        """Return the result of the run."""
        contribution = self._recipe.contribution
        shown = (one for one in reversed(self._results.values()) if not isinstance(one, bool))
        final = next(shown, None)
        result: dict[str, Any] = {
            "success": self._error is None,
            "memoryId": self._recipe.id,
            "query": self.names.query,
            "stepResults": self._results,
            "finalOutput": final,
            "formattedOutput": self._formatted(final),
            "exitedEarly": self._has_exited,
            "contribution": {
                "section": contribution.section,
                "priority": contribution.priority,
                "weight": contribution.weight,
            },
            "variables": {"used": [*self.names.used], "missing": [*self.names.missing]},
            "warnings": self._warnings,
            "timing": {"totalMs": round(self._seconds * 1000, 3), "steps": self._timing},
        }
        if self._error is not None:
            result["error"] = self._error
        return result

    def _formatted(self, final: Result | None) -> str:
        if final is None or isinstance(final, str):
            return final or ""
        contribution = self._recipe.contribution
        return format_items(flatten(final)[: contribution.max_items], contribution.format)
