"""The step `custom`."""

from dataclasses import dataclass
from typing import Any

from memrelay.memory.models.recipes.handlers import all_handlers
from memrelay.memory.models.recipes.step import Result, StepCall, StepFailed, step

# Errors of a handler that end its step and not the call.
HANDLER_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom:
    handler: str
    """Name of a handler. `pick` keeps only the fields in `args.fields`."""
    args: dict[str, Any] | None = None
    """Arguments of the handler."""


@step("custom", "custom", reads=("list", "groups"), returns=("list", "text", "boolean"))
def custom(params: Custom, call: StepCall) -> Result:
    """Return what a handler makes of the items."""
    handler = all_handlers().get(params.handler)
    if handler is None:
        raise StepFailed("handler_failed", f'there is no handler "{params.handler}"')
    run = {**call.run, "results": call.results, "query": call.query}
    try:
        result = handler(call.items, params.args or {}, run)
    except HANDLER_ERRORS as error:
        raise StepFailed("handler_failed", f"{params.handler}: {error}") from error
    are_items = isinstance(result, list) and all(isinstance(item, dict) for item in result)
    if not are_items and not isinstance(result, str | bool):
        raise StepFailed(
            "handler_failed", f"{params.handler} must return a list of objects, a text or a boolean"
        )
    return result
