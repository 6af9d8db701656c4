"""WordLlama: the mean of a text's word vectors. Sixty times as fast as the built-in model, and
coarser.

Only the files of the package `wordllama` are used. Importing it would set up logging for the whole
process, and it fetches what
it lacks.
"""

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load as load_tensors
from tokenizers import Tokenizer

from memrelay.memory.embedding.embedder import Calibration, EmbeddingOptions, Fingerprint
from memrelay.memory.embedding.unit_rows import unit_rows
from memrelay.memory.errors import EmbeddingFault

WEIGHTS, TOKENIZER = (
    "weights/l2_supercat_256.safetensors",
    "tokenizers/l2_supercat_tokenizer_config.json",
)
MOST_CHARACTERS = 1 << 15  # of a text; what lies beyond does not count


class WordLlama:
    """Of 256 dimensions; some 45 MB, and 6,000 texts a second and core."""

    calibration = Calibration()
    waits = False

    def __init__(self, folder: Path) -> None:
        """`folder` is the package's."""
        weights, tokenizer = (
            folder.joinpath(WEIGHTS).read_bytes(),
            folder.joinpath(TOKENIZER).read_bytes(),
        )
        self._words = load_tensors(weights)["embedding.weight"]
        self._tokenizer = Tokenizer.from_buffer(tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        digest = hashlib.sha256(weights + tokenizer).hexdigest()
        self.fingerprint = Fingerprint("wordllama-l2-supercat", self._words.shape[1], digest)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As Embedder has it."""
        matrix = np.zeros((len(texts), self.fingerprint.dimension), np.float32)
        for row, text in enumerate(texts):
            if tokens := self._tokenizer.encode(
                text[:MOST_CHARACTERS], add_special_tokens=False
            ).ids:
                matrix[row] = self._words[tokens].mean(axis=0, dtype=np.float32)
        return unit_rows(matrix)


def load(options: EmbeddingOptions) -> WordLlama:
    """The embedder. Raises EmbeddingFault where the package is not installed."""
    found = find_spec("wordllama")
    if found is None or found.origin is None:
        raise EmbeddingFault(
            "the embedder `wordllama` is not installed: `.venv/bin/pip install wordllama`"
        )
    return WordLlama(Path(found.origin).parent)
