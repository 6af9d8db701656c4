"""The built-in model bge: its vectors, and questions with an instruction before them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from memrelay.memory.search.embedding.bge import RUNNING
from memrelay.memory.search.embedding.built_in import BGE
from memrelay.memory.search.embedding.embedder import Calibration, EmbeddingOptions, Fingerprint
from memrelay.memory.search.embedding.loading import LazyEmbedder, load
from memrelay.memory.search.embedding.onnx_embedder import OnnxEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder

INSTRUCTION = "Represent this sentence for searching relevant passages: "


def test_a_question_is_nearest_to_its_answer() -> None:
    embedder = load(EmbeddingOptions("bge"))
    turns = embedder.embed(
        [
            "Ada said: we meet at three in the afternoon",
            "Bob said: my cat sleeps all day",
            "The tea is cold",
        ]
    )

    (question,) = embedder.embed_questions(["what time is the appointment?"])

    assert (turns @ question).argmax() == 0


def test_a_vector_does_not_depend_on_the_other_texts() -> None:
    embedder = load(EmbeddingOptions("bge"))
    texts = ["tea", "Ada said: the tea is cold", "word " * 300]

    together = embedder.embed(texts)

    assert together.tobytes() == np.concatenate([embedder.embed([one]) for one in texts]).tobytes()


def test_an_instruction_stands_before_questions_only() -> None:
    embedder = OnnxEmbedder(replace(BGE, question_prefix=INSTRUCTION), RUNNING, 1)
    expected = embedder.embed([INSTRUCTION + "who likes tea?", "who likes tea?"])

    (question,), (text,) = (
        make(["who likes tea?"]) for make in (embedder.embed_questions, embedder.embed)
    )

    assert np.array_equal([question, text], expected)


def test_an_instruction_gives_no_meaning_to_an_unknown_script() -> None:
    embedder = OnnxEmbedder(replace(BGE, question_prefix=INSTRUCTION), RUNNING, 1)

    assert not embedder.embed_questions(["ฉันชอบชา"]).any()


class Sided:
    """An embedder that tells questions and texts apart."""

    fingerprint, calibration, waits = Fingerprint("sided", 2, "0" * 16), Calibration(), False

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.tile(np.array([1, 0], np.float32), (len(texts), 1))

    def embed_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.tile(np.array([0, 1], np.float32), (len(texts), 1))


@pytest.mark.parametrize("is_prepared", [False, True])
def test_a_question_and_a_text_of_the_same_words_are_kept_apart(is_prepared: bool) -> None:
    lazy = LazyEmbedder(EmbeddingOptions("none"))
    lazy._loaded = Sided()
    questions, name = QuestionEmbedder(lazy), str(Sided.fingerprint)
    if is_prepared:
        questions.prepare(["tea"]).result()
        assert questions.known("tea", name, "text") is None
        questions.prepare(["tea"], role="text").result()

    question, text = questions.ask("tea", name), questions.ask("tea", name, "text")

    assert question.vector.tolist() == [0, 1]
    assert text.vector.tolist() == [1, 0]
    assert questions.known("tea", name) is question
    assert questions.known("tea", name, "text") is text
    questions.close()
