"""Synthetic vectors with the geometry of the built-in model, for measurements of search and
comparison.

They have 384 dimensions, spread like the built-in model's vectors of English sentences: 64
directions hold 0.70 of the variance, 128 hold 0.85. They form topics, so that the 16th nearest of
100,000 has a cosine of 0.5 to 0.6 as with the model.
"""

from typing import Any

import numpy as np

from memrelay.memory.search.embedding.embedder import Calibration, Fingerprint

DIMENSION, TOPICS = 384, 3000
# STEEPNESS of the spread over directions. INDIVIDUAL is the part of a vector beyond its topic.
STEEPNESS, INDIVIDUAL = 1.0, 1.1


class SyntheticVectors:
    """An embedder with the name of MiniLM, so that the same calibration applies."""

    fingerprint, calibration, waits = (
        Fingerprint("all-MiniLM-L6-v2-int8", DIMENSION, "0" * 16),
        Calibration(),
        False,
    )

    def __init__(self) -> None:
        """Seed the generator, so that every run makes the same vectors."""
        self._chance = np.random.default_rng(2)
        self._turn = np.linalg.qr(self._chance.normal(size=(DIMENSION, DIMENSION)))[0]
        self._topics = self._drawn(TOPICS)

    def embed(self, texts: Any) -> np.ndarray:
        """Return one vector per text. The content of the text does not matter."""
        made = self._topics[
            self._chance.integers(0, TOPICS, len(texts))
        ] + INDIVIDUAL * self._drawn(len(texts))
        return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)

    def _drawn(self, count: int) -> np.ndarray:
        spread = np.arange(1, DIMENSION + 1) ** -STEEPNESS
        made = self._chance.normal(size=(count, DIMENSION)) * np.sqrt(spread)
        return (made / np.linalg.norm(made, axis=1, keepdims=True)) @ self._turn


class LoadedEmbedder:
    """A lazy embedder that is already loaded."""

    configured = True

    def __init__(self, embedder: SyntheticVectors) -> None:
        self._embedder = embedder

    def ready(self, fingerprint: str) -> SyntheticVectors:
        """Return the embedder for any fingerprint."""
        return self._embedder
