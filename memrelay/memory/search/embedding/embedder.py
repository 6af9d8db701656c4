"""The embedder protocol: texts to vectors whose cosine measures how near their meanings are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:  # numpy takes 20 MB, which a worker without embeddings saves
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

Model = Literal["none", "local", "wordllama", "endpoint"]
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
    least: float = 0.4  # the score from which on meaning alone finds a text


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

    model: Model = "local"
    threads: int = 1
    url: str = ""  # of the endpoint, without /embeddings
    name: str = ""  # the endpoint's name for its model
    # raises LookupError if there is no key
    read_key: Callable[[], str] | None = field(default=None, repr=False)
    private: bool = False  # whether the endpoint may have a private address
    timeout_s: float = 10
