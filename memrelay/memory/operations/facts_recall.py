"""facts.recall: reads a fact by its key and counts the access."""

from memrelay.memory.agents.facts import FactName, FactView, missing_fact, recall_facts
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@operation("facts.recall", access="read", mutates=True, home="memories", any_store=True)
def recall(tx: Transaction, wanted: FactName, context: Context) -> FactView:
    """Return a fact as facts.get does, and count the access. The count adds no history.

    Raises RecordNotFound: when no visible fact has the key.
    """
    if (found := recall_facts(tx, wanted, context)) is None:
        raise missing_fact(f"the key {wanted.key!r}")
    return found
