"""What an embedder is: from texts to vectors whose cosine says how near their meanings are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:  # a worker that embeds nothing does without numpy's 20 MB
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

Model = Literal["none", "local", "wordllama", "endpoint"]
PROBE = "."  # a text that any model has a vector of


class Fingerprint(NamedTuple):
    """What vectors must have in common to be compared."""

    name: str
    dimension: int
    digest: str  # of the weights and the vocabulary, or of what the endpoint calls its model

    def __str__(self) -> str:
        """As a store keeps it."""
        return f"{self.name}/{self.dimension}/{self.digest[:16]}"


class Calibration(NamedTuple):
    """A curve from a cosine to a score of 0 to 1 that means the same for every embedder: straight
    between its points."""

    cosines: tuple[float, ...] = (0.0, 1.0)  # ascending
    scores: tuple[float, ...] = (
        0.0,
        1.0,
    )  # at each of them; below the first and above the last as there
    least: float = 0.4  # the score from which on a text is found for its meaning alone


class Embedder(Protocol):
    """May be called by several threads at once. tests/memory/embedding/test_embedders.py holds each
    one to this."""

    @property
    def fingerprint(self) -> Fingerprint:
        """Vectors of two embedders are comparable if theirs are equal."""

    @property
    def calibration(self) -> Calibration:
        """What its cosines are worth."""

    @property
    def waits(self) -> bool:
        """Whether it waits for another machine, so that a store's transaction must not wait for
        it."""

    def embed(self, texts: Sequence[str]) -> "Matrix":
        """A row a text, of unit length, or of zeros where there is nothing to embed; float32, C
        order.

        A text that is longer than the model takes counts with its beginning. Raises EmbeddingFault,
        or EmbeddingLater where
        the same may work shortly, or TextRefused where it is the texts that are not taken.
        """


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    """Which embedder, and how it works (config.yaml, section `embedding`)."""

    model: Model = "local"
    threads: int = 1
    url: str = ""  # of the endpoint: what stands before /embeddings
    name: str = ""  # by which the endpoint knows its model
    read_key: Callable[[], str] | None = field(
        default=None, repr=False
    )  # raises LookupError where it is not there
    private: bool = False  # whether the endpoint may have an address that is not public
    timeout_s: float = 10
