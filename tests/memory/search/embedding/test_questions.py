"""Vectors of questions: awaited outside of transactions, kept, and retried after a failure."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from memrelay.memory.errors import EmbeddingFault, EmbeddingUnavailable, VectorPending
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import ANSWER_S, MOST_S, QuestionEmbedder
from tests.memory.search.embedding.embedders import (
    endpoint_options,
    lazy_endpoint,
    stopped_clock,
    wait_for_answer,
)
from tests.support.embedding_server import embedding_server
from tests.support.waiting import wait_for


def test_a_failed_question_is_retried_after_a_while() -> None:
    now = [0.0]
    with embedding_server() as server:
        lazy = lazy_endpoint(server)
        fingerprint, questions = str(lazy.get().fingerprint), QuestionEmbedder(lazy, lambda: now[0])
        server.instead = [(500, b"")]

        def ask() -> list[object]:
            try:
                return [questions.ask("aa", fingerprint)]
            except VectorPending:
                return []
            except EmbeddingFault as fault:
                return [fault]

        first = wait_for(ask, "the fault")[0]
        second = ask()[0]
        now[0] += 60
        third = wait_for(ask, "the vector")[0]

        assert isinstance(first, EmbeddingFault) and first is second
        assert not isinstance(third, EmbeddingFault)
        questions.close()


def test_a_question_is_not_embedded_for_vectors_of_another_model() -> None:
    lazy = LazyEmbedder(EmbeddingOptions("wordllama"))

    # The model is loaded during the first round.
    for questions in (QuestionEmbedder(lazy, stopped_clock), QuestionEmbedder(lazy, stopped_clock)):
        with pytest.raises(
            EmbeddingFault, match="the vectors of this store are of all-MiniLM-L6-v2-int8/384/0123"
        ):
            wait_for_answer(partial(ask_once, questions))
        questions.close()


def ask_once(questions: QuestionEmbedder) -> list[object]:
    return [questions.ask("tea", "all-MiniLM-L6-v2-int8/384/0123")]


def test_an_unexpected_error_reaches_only_its_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    with embedding_server() as server:
        lazy = lazy_endpoint(server)
        fingerprint, questions = str(lazy.get().fingerprint), QuestionEmbedder(lazy, lambda: now[0])
        make_vectors = lazy.get().embed

        def embed(texts: Sequence[str]) -> Any:
            if texts == ["bad"]:
                raise MemoryError("no room")
            return make_vectors(texts)

        monkeypatch.setattr(lazy.get(), "embed", embed)

        with pytest.raises(MemoryError):
            wait_for_answer(lambda: [questions.ask("bad", fingerprint)])
        assert wait_for_answer(lambda: [questions.ask("aa", fingerprint)])
        now[0] += 2 * ANSWER_S
        assert wait_for_answer(lambda: [questions.ask("bb", fingerprint)])
        questions.close()


def test_only_one_question_at_a_time_waits_for_a_hanging_server() -> None:
    now = [100.0]
    with embedding_server() as server:
        lazy = lazy_endpoint(server)
        fingerprint, questions = str(lazy.get().fingerprint), QuestionEmbedder(lazy, lambda: now[0])
        server.open.clear()
        with pytest.raises(VectorPending):
            questions.ask("aa", fingerprint)

        now[0] += MOST_S
        # the first timed out, and the second is not awaited
        for text in ("aa", "bb"):
            with pytest.raises(EmbeddingUnavailable, match="no vector of the question within 5 s"):
                questions.ask(text, fingerprint)
        now[0] += ANSWER_S
        with pytest.raises(VectorPending):
            questions.ask("cc", fingerprint)
        with pytest.raises(EmbeddingUnavailable):
            questions.ask("dd", fingerprint)
        server.open.set()

        assert wait_for_answer(lambda: [questions.ask("cc", fingerprint)])
        assert wait_for_answer(lambda: [questions.ask("dd", fingerprint)])
        questions.close()


def test_a_vector_is_kept_for_a_late_caller() -> None:
    now = [100.0]
    with embedding_server() as server:
        lazy = lazy_endpoint(server)
        fingerprint, questions = str(lazy.get().fingerprint), QuestionEmbedder(lazy, lambda: now[0])
        with pytest.raises(VectorPending):
            questions.ask("aa", fingerprint)
        wait_for(lambda: questions.known("aa", fingerprint) is not None, "the vector exists")

        now[0] += 1000

        assert wait_for_answer(lambda: [questions.ask("aa", fingerprint)])
        assert server.asked.count(["aa"]) == 1
        questions.close()


def test_a_rejected_text_does_not_block_the_preparation_of_others() -> None:
    with embedding_server() as server:
        lazy = lazy_endpoint(server)
        fingerprint, questions = str(lazy.get().fingerprint), QuestionEmbedder(lazy)
        server.refused = "bad"

        questions.prepare(["aa", "bad", "bb", "cc"]).result(20)

        assert [
            questions.known(text, fingerprint) is None for text in ("aa", "bad", "bb", "cc")
        ] == [False, True, False, False]
        questions.close()


def test_a_server_that_rejected_the_model_is_retried_after_a_while() -> None:
    now = [100.0]
    with embedding_server() as server:
        lazy = LazyEmbedder(endpoint_options(server), lambda: now[0])
        server.instead = [(404, b"")]  # for example, a model that is not downloaded yet

        for _ in range(2):
            with pytest.raises(EmbeddingFault, match="404"):
                lazy.get()
        now[0] += 60

        assert (lazy.get().fingerprint.name, lazy.fault) == ("letters", "")
