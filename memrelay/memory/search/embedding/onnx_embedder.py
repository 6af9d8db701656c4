"""Runs a built-in model with onnxruntime."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memrelay.installation import install_extra
from memrelay.memory.engine.free_memory import return_free_memory
from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.search.embedding.built_in import VOCABULARY, BuiltInModel
from memrelay.memory.search.embedding.unit_rows import unit_rows
from memrelay.memory.search.embedding.wordpiece import WordPiece

# Read by onnxruntime at its import. Otherwise it keeps events for Microsoft, with an id of the
# device, in the cache folder of the user.
os.putenv("ORT_DISABLE_TELEMETRY", "1")
import onnxruntime

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
SEVERE = 3  # onnxruntime's log level for errors
Floats = NDArray[np.float32]


def mean_of_tokens(hidden: Floats, mask: NDArray[np.int64]) -> Floats:
    """Return the mean of the output over each text's tokens. `hidden` is text, token, dimension."""
    mean: Floats = np.einsum("bth,bt->bh", hidden, mask.astype(np.float32)) / mask.sum(
        axis=1, keepdims=True
    )
    return mean


def first_token(hidden: Floats, _mask: NDArray[np.int64]) -> Floats:
    """Return the output at [CLS]."""
    return hidden[:, 0]


@dataclass(frozen=True, slots=True)
class Running:
    """How a model runs."""

    pool: Callable[[Floats, NDArray[np.int64]], Floats]
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
        self._session = onnxruntime.InferenceSession(
            running.edit(_read_weights(model)),
            session_options(threads),
            providers=["CPUExecutionProvider"],
        )
        # onnxruntime keeps the bytes of the file, which only other providers need.
        self._session._model_bytes = None
        self.calibration = model.calibration
        if model.is_centered:
            center = self.embed(GENERAL).mean(axis=0)
            self.calibration = self.calibration._replace(center=center)
        # Loading leaves 15 to 28 MB free.
        return_free_memory()

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts. A vector does not depend on the other texts.

        A text in a script that the vocabulary lacks gets zeros: otherwise all such texts would
        share the vector of the unknown token.
        """
        pieces = [self._pieces.encode(text, MOST_TOKENS) for text in texts]
        matrix = np.empty((len(texts), self.fingerprint.dimension), np.float32)
        for chosen in self._batches([len(one) for one in pieces]):
            matrix[chosen] = self._run([pieces[one] for one in chosen])
        matrix[[self._pieces.is_mostly_unknown(text) for text in texts]] = 0
        return unit_rows(matrix)

    def _run(self, pieces: Sequence[Sequence[int]]) -> Floats:
        tokens = np.zeros((len(pieces), max(map(len, pieces))), np.int64)
        mask = np.zeros_like(tokens)
        for row, numbers in enumerate(pieces):
            tokens[row, : len(numbers)] = numbers
            mask[row, : len(numbers)] = 1
        fed = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        return self._running.pool(self._session.run(None, fed)[0], mask)

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


def _read_weights(model: BuiltInModel) -> bytes:
    path = model.find_file()
    weights = path.read_bytes()
    vocabulary = files("memrelay.memory.search.embedding").joinpath("vocab.txt").read_bytes()
    for name, found, expected in (
        (str(path), weights, model.weights),
        ("vocab.txt", vocabulary, VOCABULARY),
    ):
        if hashlib.sha256(found).hexdigest() != expected:
            raise EmbeddingFault(
                f"{name} is not the file that the embedder `{model.setting}` expects: reinstall "
                f"it with `make clean up`, or {install_extra(model.setting)}; or choose another "
                "`embedding.model`"
            )
    return weights


def session_options(threads: int) -> Any:
    """Return the options of onnxruntime for a worker that shares its processors."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = SEVERE
    options.enable_cpu_mem_arena = False  # it would keep the memory of the longest batch
    # waiting threads must not occupy a core
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options
