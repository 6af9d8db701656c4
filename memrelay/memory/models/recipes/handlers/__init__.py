"""The functions that the step `custom` may call, one in each module of this folder."""

import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from memrelay.memory.engine.models import load
from memrelay.memory.models.recipes.step import Items, Result

# `(items, args, run)`. `run` has memoryId, memory, intent, results, query, projectPath, threadId
# and variables.
Handler = Callable[[Items, Mapping[str, Any], Mapping[str, Any]], Result]
Function = TypeVar("Function", bound=Handler)
HANDLERS: dict[str, Handler] = {}


def handler(name: str) -> Callable[[Function], Function]:
    """Register the decorated function as the handler `name`."""

    def declare(function: Function) -> Function:
        HANDLERS[name] = function
        return function

    return declare


@cache
def all_handlers() -> dict[str, Handler]:
    """Import all handlers and return them by name."""
    for module in pkgutil.iter_modules(__path__):
        load(f"memrelay.memory.models.recipes.handlers.{module.name}")
    return dict(sorted(HANDLERS.items()))
