"""facts.get: reads a fact by its key."""

from memrelay.memory.agents.facts import FactName, FactView, get_fact, missing_fact
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@operation("facts.get", access="read", mutates=False, home="memories", any_store=True)
def get(tx: Transaction, wanted: FactName, context: Context) -> FactView:
    """Return the fact of the session, else of the user, the agent, or everyone.

    Raises RecordNotFound: when no visible fact has the key.
    """
    if (found := get_fact(tx, wanted, context)) is None:
        raise missing_fact(f"the key {wanted.key!r}")
    return found
