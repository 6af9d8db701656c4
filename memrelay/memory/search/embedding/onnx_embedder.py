"""Embeds texts with a built-in model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from memrelay.memory.search.embedding.built_in import BuiltInModel
from memrelay.memory.search.embedding.onnx_model import Floats, Numbers, OnnxModel
from memrelay.memory.search.embedding.unit_rows import unit_rows
from memrelay.memory.search.embedding.wordpiece import WordPiece

MOST_TOKENS = 256  # about 200 words; the rest of a text is ignored
# Tokens per batch, padding included. Memory grows with them, and with the square of the longest.
TOKENS_TOGETHER = 512
# Sentences about nothing in particular, for the center of a calibration. Twice as many give almost
# the same.
GENERAL = (
    "The meeting starts at nine on Monday.",
    "Please send the report before the end of the day.",
    "He plays the guitar in a band.",
    "I like to cook pasta with tomatoes.",
    "They moved to a small town near the coast.",
    "The results were published in a journal.",
    "We planned a trip to the mountains in July.",
    "The company hired three engineers this year.",
    "The film was longer than I expected.",
    "The package arrived with a broken lid.",
    "Thanks, that sounds great!",
    "Can you call me back tomorrow?",
    "The contract ends on the first of May.",
    "The password must have eight characters.",
    "The children went to school by bus.",
    "The cell divides into two equal parts.",
)


def mean_of_tokens(hidden: Floats, mask: Numbers) -> Floats:
    """Return the mean of the output over each text's tokens. `hidden` is text, token, dimension."""
    mean: Floats = np.einsum("bth,bt->bh", hidden, mask.astype(np.float32)) / mask.sum(
        axis=1, keepdims=True
    )
    return mean


def first_token(hidden: Floats, _mask: Numbers) -> Floats:
    """Return the output at [CLS]."""
    return hidden[:, 0]


@dataclass(frozen=True, slots=True)
class Running:
    """How a model runs."""

    pool: Callable[[Floats, Numbers], Floats]
    texts_together: int = 1
    # Changes the file before it is loaded.
    edit: Callable[[bytes], bytes] = bytes


class OnnxEmbedder:
    """A built-in model.

    The constructor raises EmbeddingFault if the weights or the vocabulary are not the expected
    files, and ModuleNotFoundError if their package is missing.
    """

    waits = False

    def __init__(self, model: BuiltInModel, running: Running, threads: int) -> None:
        self.fingerprint, self._running = model.fingerprint, running
        self._pieces = WordPiece()
        self._model = OnnxModel(model, threads, running.edit)
        self.calibration = model.calibration
        if model.is_centered:
            center = self.embed(GENERAL).mean(axis=0)
            self.calibration = self.calibration._replace(center=center)

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts. A vector does not depend on the other texts.

        A text in a script that the vocabulary lacks gets zeros: otherwise all such texts would
        share the vector of the unknown token.
        """
        pieces = [self._pieces.encode(text, MOST_TOKENS) for text in texts]
        matrix = np.empty((len(texts), self.fingerprint.dimension), np.float32)
        for chosen in self._batches([len(one) for one in pieces]):
            output, mask = self._model.run([pieces[one] for one in chosen])
            matrix[chosen] = self._running.pool(output, mask)
        matrix[[self._pieces.is_mostly_unknown(text) for text in texts]] = 0
        return unit_rows(matrix)

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yield the indexes of texts to run together: of similar lengths, to limit padding."""
        most, batch = self._running.texts_together, list[int]()
        for at in sorted(range(len(lengths)), key=lengths.__getitem__):
            is_full = len(batch) == most or (len(batch) + 1) * lengths[at] > TOKENS_TOGETHER
            if batch and is_full:
                yield batch
                batch = []
            batch.append(at)
        if batch:
            yield batch
