"""The embedder protocol: texts to vectors whose cosine measures how near their meanings are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import log10
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:  # numpy takes 20 MB, which a worker without embeddings saves
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

# `auto` is the best built-in model that is installed (built_in.py).
Model = Literal["none", "auto", "local", "bge", "wordllama", "endpoint"]
MANY_TEXTS = 1000  # the number of texts for `Calibration.least`
PROBE = "."  # a text for which every model has a vector


class Fingerprint(NamedTuple):
    """The identity of a model. Only vectors with the same fingerprint are comparable."""

    name: str
    dimension: int
    digest: str  # of the weights and the vocabulary, or of the endpoint's name for its model

    def __str__(self) -> str:
        """Return the form that a store keeps."""
        return f"{self.name}/{self.dimension}/{self.digest[:16]}"


class Calibration(NamedTuple):
    """A piecewise linear curve from cosines to scores from 0 to 1, comparable between embedders."""

    cosines: tuple[float, ...] = (0.0, 1.0)  # ascending
    scores: tuple[float, ...] = (0.0, 1.0)  # at each cosine; constant below and above
    # The score from which on meaning alone finds a text: among so many texts, and a single one.
    least: float = 0.4
    least_of_one: float = 0.4
    # The mean vector of general sentences, for a model in which texts without anything in common
    # are near each other, some questions more than others. The curve then begins at the mean cosine
    # of a question with these sentences, as the T-norm of speaker verification does.
    center: "Matrix | None" = None

    def of(self, question: "Matrix") -> "Calibration":
        """Return the curve for the cosines of a question with texts."""
        if self.center is None:
            return self
        mean = float(question @ self.center)
        cosines = tuple(one + mean for one in self.cosines)
        return self._replace(cosines=cosines, center=None)

    def least_among(self, texts: int) -> float:
        """Return the score from which on meaning alone finds one of so many texts.

        Among more texts, the best of those that have nothing to do with a question is nearer.
        """
        share = min(log10(max(texts, 1)) / log10(MANY_TEXTS), 1)
        return self.least_of_one + share * (self.least - self.least_of_one)


class Embedder(Protocol):
    """Turns texts into vectors. Thread-safe.

    tests/memory/search/embedding/test_embedder.py checks every implementation.
    """

    @property
    def fingerprint(self) -> Fingerprint:
        """The identity of the model."""

    @property
    def calibration(self) -> Calibration:
        """The curve from its cosines to scores."""

    @property
    def waits(self) -> bool:
        """Whether it waits for another machine. Then a store's transaction must not wait for it."""

    def embed(self, texts: Sequence[str]) -> "Matrix":
        """Return one row per text: float32, C order, unit length, or zeros for an empty text.

        Only the beginning of a text counts if it is longer than the model accepts.

        Raises EmbeddingUnavailable: when a retry may succeed shortly.
        Raises TextRejected: when the embedder rejects these texts.
        Raises EmbeddingFault: when the embedder fails otherwise.
        """


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    """The choice of an embedder and its settings (config.yaml, section `embedding`)."""

    model: Model = "auto"
    threads: int = 1
    url: str = ""  # of the endpoint, without /embeddings
    name: str = ""  # the endpoint's name for its model
    # raises LookupError if there is no key
    read_key: Callable[[], str] | None = field(default=None, repr=False)
    private: bool = False  # whether the endpoint may have a private address
    timeout_s: float = 10
