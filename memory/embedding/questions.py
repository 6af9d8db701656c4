"""Vectors of what is asked: made at once where the embedder is here, and awaited where it is
elsewhere."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from memrelay.memory.embedding.embedder import Embedder
from memrelay.memory.embedding.loading import LazyEmbedder
from memrelay.memory.errors import EmbeddingLater, TextRefused, VectorAwaited

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KEPT = 1024  # vectors of questions that were asked lately
MOST_AWAITED = 256
THREADS = 2
# after which an awaited vector is asked for again; then after as long as it is awaited already,
FIRST_S = 0.02
LONGEST_S = 2.0  # but for this at most: the answer must still be kept then
# that a vector is awaited: who asked has other things to go by, and somebody waits for that
MOST_S = 5.0
ANSWER_S = 10.0  # for which what was awaited is kept for those who come back, a fault too
SILENT = f"no vector of the question within {MOST_S:g} s"

Key = tuple[str, str]  # text, fingerprint


class Question(NamedTuple):
    """A vector, with the embedder that made it."""

    vector: "NDArray[np.float32]"
    embedder: Embedder


@dataclass(slots=True)
class _Awaited:
    """Times are the clock's, s."""

    since: float
    ended: float = math.inf
    future: Future[Question] = field(init=False)


class Questions:
    """May be asked by several threads at once."""

    def __init__(self, embedder: LazyEmbedder, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self.embedder, self._clock, self._lock = embedder, clock, Lock()
        self._kept: OrderedDict[Key, Question] = OrderedDict()
        self._awaited: dict[Key, _Awaited] = {}
        # by the clock: since one was awaited in vain, one question at a time is asked; 0: all are
        self._again_at = 0.0
        self._executor = ThreadPoolExecutor(THREADS, "questions")

    def ask(self, text: str, fingerprint: str) -> Question:
        """The vector of a question, by the embedder of the vectors that it is to be compared with.
        5 ms with the built-in one.

        Raises VectorAwaited where it is made elsewhere, or the embedder is loaded: ask again when
        it says; and EmbeddingFault,
        also where it was awaited for `MOST_S`, or another question was in vain a moment ago.
        """
        key = text, fingerprint
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        embedder = self.embedder.ready(fingerprint)
        if embedder is None or embedder.waits:
            return self._await(key)
        found = _asked(embedder, text)
        self._keep({key: found})
        return found

    def known(self, text: str, fingerprint: str) -> Question | None:
        """The vector of a question, if it was made lately."""
        with self._lock:
            return self._kept.get((text, fingerprint))

    def prepare(self, texts: Sequence[str], fingerprint: str = "") -> Future[None]:
        """Makes the vectors of so many texts (`KEPT` at most), in a thread of its own, by the
        embedder of vectors with that
        fingerprint, or of today.

        The future ends when they are known, but for those that the embedder refuses; with
        EmbeddingFault where they cannot be
        made.
        """
        return self._executor.submit(self._prepare, texts, fingerprint)

    def _prepare(self, texts: Sequence[str], fingerprint: str) -> None:
        embedder = self.embedder.of(fingerprint) if fingerprint else self.embedder.get()
        fingerprint = str(embedder.fingerprint)
        missing = [text for text in dict.fromkeys(texts) if self.known(text, fingerprint) is None]
        if not missing:
            return
        self._keep(
            {
                (text, fingerprint): question
                for text, question in _asked_together(embedder, missing).items()
            }
        )

    def forget(self) -> None:
        """Every vector is made anew: a server may have another model by now, and call it the
        same."""
        with self._lock:
            self._kept.clear()
            self._awaited.clear()

    def close(self) -> None:
        """Nothing is asked any more."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _keep(self, found: Mapping[Key, Question]) -> None:
        with self._lock:
            self._kept.update(found)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)

    def _await(self, key: Key) -> Question:
        with self._lock:
            now = self._clock()
            self._forget(now)
            awaited = self._awaited.get(key) or self._begin(key, now)
            if not awaited.future.done():
                raise self._not_yet(now, now - awaited.since)
        return awaited.future.result()

    def _begin(self, key: Key, now: float) -> _Awaited:
        """One more that is awaited."""
        if len(self._awaited) >= MOST_AWAITED:
            raise EmbeddingLater(f"{MOST_AWAITED} questions wait for their vectors already")
        if now < self._again_at:
            raise EmbeddingLater(SILENT)
        if self._again_at:  # this one looks whether it has passed
            self._again_at = now + ANSWER_S
        awaited = _Awaited(now)
        awaited.future = self._executor.submit(self._make, key, awaited)
        self._awaited[key] = awaited
        return awaited

    def _not_yet(self, now: float, waited_s: float) -> VectorAwaited | EmbeddingLater:
        """What is told where the vector is not there."""
        if waited_s < MOST_S:
            return VectorAwaited(min(max(FIRST_S, waited_s), LONGEST_S))
        self._again_at = self._again_at or now + ANSWER_S
        return EmbeddingLater(SILENT)

    def _forget(self, now: float) -> None:
        """What was answered a while ago: a fault may have passed."""
        self._awaited = {
            key: awaited for key, awaited in self._awaited.items() if awaited.ended > now - ANSWER_S
        }

    def _make(self, key: Key, awaited: _Awaited) -> Question:
        text, fingerprint = key
        try:
            if self._clock() > awaited.since + MOST_S:  # nobody waits any more
                raise EmbeddingLater(SILENT)
            found = _asked(self.embedder.of(fingerprint), text)
        finally:
            awaited.ended = self._clock()
        self._keep({key: found})
        with self._lock:
            self._again_at = 0.0
        return found


def _asked(embedder: Embedder, text: str) -> Question:
    return Question(embedder.embed([text])[0], embedder)


def _asked_together(embedder: Embedder, texts: Sequence[str]) -> dict[str, Question]:
    """By text; without those that it refuses, which are found by halves."""
    try:
        return {
            text: Question(vector, embedder)
            for text, vector in zip(texts, embedder.embed(texts), strict=True)
        }
    except TextRefused:
        half = len(texts) // 2
        return (
            _asked_together(embedder, texts[:half]) | _asked_together(embedder, texts[half:])
            if half
            else {}
        )
