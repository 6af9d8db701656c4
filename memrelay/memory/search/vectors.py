"""records.embed: switches on the search of a store by meaning."""

from dataclasses import dataclass

from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import Refused
from memrelay.memory.operations import Context, operation
from memrelay.memory.search.embedding.backfill import EMBED, inspect_vectors
from memrelay.memory.search.embedding.loading import NO_EMBEDDER


@dataclass(frozen=True, slots=True)
class EmbedRecords:
    """No options: a vector is made for every record of the store."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """The state of the vectors when the call ran."""

    missing: int
    """Records without a vector. They are found by their words until it is there."""


@operation(EMBED, access="write", mutates=True, needs_vectors=True)
def embed_records(tx: Transaction, wanted: EmbedRecords, context: Context) -> Embedding:
    """Switch on the search by meaning: make vectors of all records, now and from now on.

    A worker makes them in the background. A second call changes nothing.

    Raises Refused: when there is no embedder.
    """
    meaning = tx.meaning
    if meaning is None or not meaning.questions.embedder.configured:
        raise Refused(NO_EMBEDDER)
    return Embedding(inspect_vectors(tx, wanted=True).backlog)
