"""rules.get: reads a rule engine by its id."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.assembly.stored_engines import EngineView, find_engine, view_engine
from memrelay.memory.records.view import Guid
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class GetRules:
    """The rule engine to read."""

    id: Guid
    """The id of the engine."""


@operation("rules.get", access="read", mutates=False, home="recipes")
def get_rules(tx: Transaction, wanted: GetRules, context: Context) -> EngineView:
    """Return a rule engine.

    Raises RecordNotFound: when it does not exist.
    """
    return view_engine(find_engine(tx, wanted.id).whole)
