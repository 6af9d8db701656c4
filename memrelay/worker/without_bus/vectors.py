"""Vectors without a bus: made at once, and only once for each text, such as of both sides of a
rehearsal.
"""

import time
from collections.abc import Sequence
from contextlib import suppress

from memrelay.memory.engine.store import Store
from memrelay.memory.engine.vectors import Made
from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.search.embedding.backfill import compute_vectors, next_task, store_vectors
from memrelay.memory.search.embedding.embedder import Embedder, EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources

# Texts that are embedded together.
TEXTS_TOGETHER = 32
# Texts whose vectors are kept for the other side: about 1 kB each.
MOST_KEPT = 50_000


class Vectors:
    """Makes the vectors of stores. `made` is their number, and `took_s` their time."""

    def __init__(self, options: EmbeddingOptions) -> None:
        self._embedder = LazyEmbedder(options)
        self._questions = QuestionEmbedder(self._embedder)
        self.resources = SemanticResources(self._questions, Pool())
        self._kept: dict[tuple[str, str], bytes] = {}
        self.made, self.took_s = 0, 0.0

    def load(self) -> None:
        """Load the embedder, if there is one, so that no call waits for it."""
        if self._embedder.configured:
            with suppress(EmbeddingFault):
                self._embedder.get()

    def fill(self, store: Store, *, wanted: bool) -> None:
        """Make the vectors that a store lacks. Without an embedder it has none."""
        if not self._embedder.configured or not (wanted or store.vectors.sets()):
            return
        with suppress(EmbeddingFault):
            embedder = self._embedder.of_store(store.vectors.fingerprint)
            while task := next_task(store, embedder, wanted, TEXTS_TOGETHER, keeps_next=True):
                if task.one is not None:
                    store_vectors(store, task.one, self._make(embedder, task.texts))

    def close(self) -> None:
        """Stop the threads."""
        self._questions.close()

    def _make(self, embedder: Embedder, texts: Sequence[tuple[int, str]]) -> list[Made]:
        name = str(embedder.fingerprint)
        missing = [(row, text) for row, text in texts if (name, text) not in self._kept]
        began = time.perf_counter()
        made = compute_vectors(embedder, missing)
        self.took_s += time.perf_counter() - began
        self.made += len(made)
        known = [
            Made(row, text, self._kept[name, text])
            for row, text in texts
            if (name, text) in self._kept
        ]
        if len(self._kept) < MOST_KEPT:
            self._kept |= {(name, one.text): one.vector for one in made}
        return made + known
