"""facts.set: writes a fact under its key."""

from memrelay.memory.agents.facts import FactWritten, SetFact, set_fact
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@operation("facts.set", access="write", mutates=True, home="memories", any_store=True)
def set_value(tx: Transaction, given: SetFact, context: Context) -> FactWritten:
    """Write a fact under its key. An overwritten value stays in the history.

    Raises Refused: when the scope or the type is unknown, or the id of the scope is missing.
    Raises ValueTooLarge: when the value is too long.
    Raises VersionConflict: when the fact has another version.
    """
    return set_fact(tx, given, context)
