"""Vectors of what is asked: made at once where the embedder is here, and awaited where it is elsewhere."""
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from memory.embedding.embedder import Embedder
from memory.embedding.loading import LazyEmbedder
from memory.errors import EmbeddingFault, EmbeddingLater, VectorAwaited

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KEPT = 1024             # vectors of questions that were asked lately
MOST_AWAITED = 256
THREADS = 2
FIRST_S = 0.02          # after which an awaited vector is asked for again; then after as long as it is awaited already
ANSWER_S = 10.0         # for which what was awaited is kept for those who come back, a fault too


Key = tuple[str, str]   # text, fingerprint


class Question(NamedTuple):
    """A vector, with the embedder that made it."""

    vector: "NDArray[np.float32]"
    embedder: Embedder


class _Answer(NamedTuple):
    answer: Question | EmbeddingFault
    at: float   # s, of the clock


class _Awaited(NamedTuple):
    future: Future[_Answer]
    since: float   # s, of the clock


class Questions:
    """May be asked by several threads at once."""

    def __init__(self, embedder: LazyEmbedder, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self.embedder, self._clock, self._lock = embedder, clock, Lock()
        self._kept: OrderedDict[Key, Question] = OrderedDict()
        self._awaited: dict[Key, _Awaited] = {}
        self._executor = ThreadPoolExecutor(THREADS, "questions")

    def ask(self, text: str, fingerprint: str) -> Question:
        """The vector of a question, by the embedder of the vectors that it is to be compared with. 5 ms with the built-in one.

        Raises VectorAwaited where it is made elsewhere, or the embedder is loaded: ask again when it says; and EmbeddingFault.
        """
        key = text, fingerprint
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        embedder = self.embedder.ready(fingerprint)
        found = self._await(key) if embedder is None or embedder.waits else _asked(embedder, text)
        with self._lock:
            self._kept[key] = found
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found

    def known(self, text: str, fingerprint: str) -> Question | None:
        """The vector of a question, if it was made lately."""
        with self._lock:
            return self._kept.get((text, fingerprint))

    def prepare(self, texts: Sequence[str]) -> Future[None]:
        """Makes the vectors of so many texts (`KEPT` at most) by the embedder of today, in a thread of its own.

        The future ends when they are known; with EmbeddingFault where they cannot be made.
        """
        return self._executor.submit(self._prepare, texts)

    def _prepare(self, texts: Sequence[str]) -> None:
        embedder = self.embedder.get()
        fingerprint = str(embedder.fingerprint)
        missing = [text for text in dict.fromkeys(texts) if self.known(text, fingerprint) is None]
        if not missing:
            return
        vectors = embedder.embed(missing)
        with self._lock:
            for text, vector in zip(missing, vectors, strict=True):
                self._kept[text, fingerprint] = Question(vector, embedder)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)

    def close(self) -> None:
        """Nothing is asked any more."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _await(self, key: Key) -> Question:
        with self._lock:
            now = self._clock()
            self._forget(now)
            awaited = self._awaited.get(key)
            if awaited is None:
                if len(self._awaited) >= MOST_AWAITED:
                    raise EmbeddingLater(f"{MOST_AWAITED} questions wait for their vectors already")
                awaited = self._awaited[key] = _Awaited(self._executor.submit(self._make, *key), now)
        if not awaited.future.done():
            raise VectorAwaited(max(FIRST_S, now - awaited.since))
        answer = awaited.future.result().answer
        if isinstance(answer, EmbeddingFault):
            raise answer
        return answer

    def _forget(self, now: float) -> None:
        """What was answered a while ago: a fault may have passed."""
        self._awaited = {key: awaited for key, awaited in self._awaited.items()
                         if not awaited.future.done() or awaited.future.result().at > now - ANSWER_S}

    def _make(self, text: str, fingerprint: str) -> _Answer:
        try:
            return _Answer(_asked(self.embedder.of(fingerprint), text), self._clock())
        except EmbeddingFault as fault:
            return _Answer(fault, self._clock())


def _asked(embedder: Embedder, text: str) -> Question:
    return Question(embedder.embed([text])[0], embedder)
