"""facts.search: finds facts by their keys and values."""

from memrelay.memory.agents.facts import FoundFacts, SearchFacts, search_facts
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@operation("facts.search", access="search", mutates=False, home="memories", any_store=True)
def search(tx: Transaction, wanted: SearchFacts, context: Context) -> FoundFacts:
    """Find visible facts, the most reliable first, then those with the words in their key.

    Raises Refused: when a type is unknown.
    Raises SearchTooLong: when the search exceeds its time limit.
    """
    return search_facts(tx, wanted, context)
