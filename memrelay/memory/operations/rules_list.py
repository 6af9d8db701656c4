"""rules.list: lists the rule engines."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_read import take_page, too_large
from memrelay.memory.recipes.assembly.stored_engines import (
    MAX_ENGINES,
    EngineView,
    list_engines,
    view_engine,
)
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ListRules:
    """Lists all rule engines."""


@dataclass(frozen=True, slots=True)
class Engines:
    """Rule engines in the order of their ids."""

    items: tuple[EngineView, ...]


@operation("rules.list", access="read", mutates=False, home="recipes")
def list_rules(tx: Transaction, wanted: ListRules, context: Context) -> Engines:
    """List all rule engines, disabled ones included, in the order of their ids.

    Raises ResultTooLarge: when they do not fit into an answer.
    """
    found = map(view_engine, list_engines(tx))
    items, more = take_page(found, MAX_ENGINES, context.result_bytes)
    if more:
        raise too_large(context.result_bytes)
    return Engines(tuple(items))
