"""Vectors that are made, not of any text: as a model's are where it matters how long a search or a
comparison takes.

384 numbers that are spread as those of the built-in model are over English sentences (64 directions
hold 0.70 of what they are,
128 hold 0.85), in topics, so that the 16th nearest of 100,000 has a cosine of 0.5 to 0.6 as there.
"""

from typing import Any

import numpy as np

from memrelay.memory.embedding.embedder import Calibration, Fingerprint

DIMENSION, TOPICS = 384, 3000
STEEPNESS, OWN = 1.0, 1.1  # of the spread over directions; how much of a vector is not its topic's


class MadeVectors:
    """Made like the built-in model's, and known by its name, so that the same curve holds."""

    fingerprint, calibration, waits = (
        Fingerprint("all-MiniLM-L6-v2-int8", DIMENSION, "0" * 16),
        Calibration(),
        False,
    )

    def __init__(self) -> None:
        """The same ones each time."""
        self._chance = np.random.default_rng(2)
        self._turn = np.linalg.qr(self._chance.normal(size=(DIMENSION, DIMENSION)))[0]
        self._topics = self._drawn(TOPICS)

    def embed(self, texts: Any) -> np.ndarray:
        """One for each text, whatever it says."""
        made = self._topics[self._chance.integers(0, TOPICS, len(texts))] + OWN * self._drawn(
            len(texts)
        )
        return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)

    def _drawn(self, count: int) -> np.ndarray:
        spread = np.arange(1, DIMENSION + 1) ** -STEEPNESS
        made = self._chance.normal(size=(count, DIMENSION)) * np.sqrt(spread)
        return (made / np.linalg.norm(made, axis=1, keepdims=True)) @ self._turn


class Ready:
    """In place of an embedder that is loaded when it is wanted: one that is there."""

    configured = True

    def __init__(self, embedder: MadeVectors) -> None:
        """Whatever fingerprint is asked for, it is this one."""
        self._embedder = embedder

    def ready(self, fingerprint: str) -> MadeVectors:
        """The embedder."""
        return self._embedder
