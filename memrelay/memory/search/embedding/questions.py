"""Vectors of questions: computed at once by a local embedder, awaited from a remote one."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from memrelay.memory.errors import EmbeddingUnavailable, TextRejected, VectorPending
from memrelay.memory.search.embedding.embedder import Embedder
from memrelay.memory.search.embedding.loading import LazyEmbedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KEPT = 1024  # vectors of recent questions
MAX_AWAITED = 256
THREADS = 2
# A caller retries after this time, then after as long as it has waited already,
FIRST_S = 0.02
LONGEST_S = 2.0  # but at most after this, while the answer is still kept
MOST_S = 5.0  # the longest wait for a vector; then the search continues without it
ANSWER_S = 10.0  # how long an answer or a fault is kept for callers that retry
NO_ANSWER = f"no vector of the question within {MOST_S:g} s"

Key = tuple[str, str]  # text, fingerprint


class EmbeddedQuestion(NamedTuple):
    """A vector and the embedder that computed it."""

    vector: "NDArray[np.float32]"
    embedder: Embedder


@dataclass(slots=True)
class _Awaited:
    """A vector that is being computed. Times are seconds of the clock."""

    since: float
    ended: float = math.inf
    future: Future[EmbeddedQuestion] = field(init=False)


class QuestionEmbedder:
    """The vectors of questions in one process. Thread-safe; `clock` returns seconds."""

    def __init__(self, embedder: LazyEmbedder, clock: Callable[[], float] = time.monotonic) -> None:
        self.embedder, self._clock, self._lock = embedder, clock, Lock()
        self._kept: OrderedDict[Key, EmbeddedQuestion] = OrderedDict()
        self._awaited: dict[Key, _Awaited] = {}
        # After a timeout, only one question at a time is tried until this time. 0: no limit.
        self._again_at = 0.0
        self._executor = ThreadPoolExecutor(THREADS, "questions")

    def ask(self, text: str, fingerprint: str) -> EmbeddedQuestion:
        """Return the vector of a question by the embedder with that fingerprint.

        The built-in embedder takes 5 ms.

        Raises VectorPending: when the vector is computed elsewhere, or the embedder is loading.
        Raises EmbeddingFault: when the embedder fails, or a question timed out recently.
        """
        key = text, fingerprint
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        embedder = self.embedder.ready(fingerprint)
        if embedder is None or embedder.waits:
            return self._await(key)
        found = _embed(embedder, text)
        self._store({key: found})
        return found

    def known(self, text: str, fingerprint: str) -> EmbeddedQuestion | None:
        """Return the vector of a question, if it is kept."""
        with self._lock:
            return self._kept.get((text, fingerprint))

    def prepare(self, texts: Sequence[str], fingerprint: str = "") -> Future[None]:
        """Compute the vectors of at most `KEPT` texts in another thread.

        Uses the embedder with that fingerprint, or the configured one. The future ends when the
        vectors are known, except for texts that the embedder rejects. It raises EmbeddingFault if
        the embedder fails.
        """
        return self._executor.submit(self._prepare, texts, fingerprint)

    def forget(self) -> None:
        """Drop all vectors: a server may have changed its model under the same name."""
        with self._lock:
            self._kept.clear()
            self._awaited.clear()

    def close(self) -> None:
        """Stop the threads."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _prepare(self, texts: Sequence[str], fingerprint: str) -> None:
        embedder = self.embedder.of(fingerprint) if fingerprint else self.embedder.get()
        fingerprint = str(embedder.fingerprint)
        missing = [text for text in dict.fromkeys(texts) if self.known(text, fingerprint) is None]
        if not missing:
            return
        self._store(
            {
                (text, fingerprint): question
                for text, question in _embed_all(embedder, missing).items()
            }
        )

    def _store(self, found: Mapping[Key, EmbeddedQuestion]) -> None:
        with self._lock:
            self._kept.update(found)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)

    def _await(self, key: Key) -> EmbeddedQuestion:
        with self._lock:
            now = self._clock()
            self._drop_old(now)
            awaited = self._awaited.get(key) or self._begin(key, now)
            if not awaited.future.done():
                raise self._unavailable(key[1], now, now - awaited.since)
        return awaited.future.result()

    def _begin(self, key: Key, now: float) -> _Awaited:
        """Start computing a vector."""
        if len(self._awaited) >= MAX_AWAITED:
            raise EmbeddingUnavailable(f"{MAX_AWAITED} questions already wait for their vectors")
        if now < self._again_at:
            raise EmbeddingUnavailable(NO_ANSWER)
        if self._again_at:  # this question tests whether the server is back
            self._again_at = now + ANSWER_S
        awaited = _Awaited(now)
        awaited.future = self._executor.submit(self._compute, key, awaited)
        self._awaited[key] = awaited
        return awaited

    def _unavailable(
        self, fingerprint: str, now: float, waited_s: float
    ) -> VectorPending | EmbeddingUnavailable:
        """Return the error for a vector that is not known yet."""
        if waited_s < MOST_S:
            after_s = min(max(FIRST_S, waited_s), LONGEST_S)
            return VectorPending(after_s, is_loading=self.embedder.ready(fingerprint) is None)
        self._again_at = self._again_at or now + ANSWER_S
        return EmbeddingUnavailable(NO_ANSWER)

    def _drop_old(self, now: float) -> None:
        """Drop old answers. A fault may have passed."""
        self._awaited = {
            key: awaited for key, awaited in self._awaited.items() if awaited.ended > now - ANSWER_S
        }

    def _compute(self, key: Key, awaited: _Awaited) -> EmbeddedQuestion:
        text, fingerprint = key
        try:
            if self._clock() > awaited.since + MOST_S:  # no caller waits any more
                raise EmbeddingUnavailable(NO_ANSWER)
            found = _embed(self.embedder.of(fingerprint), text)
        finally:
            awaited.ended = self._clock()
        self._store({key: found})
        with self._lock:
            self._again_at = 0.0
        return found


def _embed(embedder: Embedder, text: str) -> EmbeddedQuestion:
    return EmbeddedQuestion(embedder.embed([text])[0], embedder)


def _embed_all(embedder: Embedder, texts: Sequence[str]) -> dict[str, EmbeddedQuestion]:
    """Return the vectors by text, without texts that the embedder rejects (found by bisection)."""
    try:
        return {
            text: EmbeddedQuestion(vector, embedder)
            for text, vector in zip(texts, embedder.embed(texts), strict=True)
        }
    except TextRejected:
        half = len(texts) // 2
        return (
            _embed_all(embedder, texts[:half]) | _embed_all(embedder, texts[half:]) if half else {}
        )
