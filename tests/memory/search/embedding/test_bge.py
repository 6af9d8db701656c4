"""The built-in model bge: its vectors and the scores of its cosines."""

import numpy as np

from memrelay.memory.search.embedding.calibrate import calibrate
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import load

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

    (question,) = embedder.embed(["what time is the appointment?"])

    assert (turns @ question).argmax() == 0


def test_a_vector_does_not_depend_on_the_other_texts() -> None:
    embedder = load(EmbeddingOptions("bge"))
    texts = ["tea", "Ada said: the tea is cold", "word " * 300]

    together = embedder.embed(texts)

    assert together.tobytes() == np.concatenate([embedder.embed([one]) for one in texts]).tobytes()


def test_questions_without_an_answer_score_below_one_with_an_answer() -> None:
    embedder = load(EmbeddingOptions("bge"))
    turns = embedder.embed(["Bob said: my cat sleeps all day", "sent", "the invoice is paid"])

    def best_score(question: str) -> float:
        (vector,) = embedder.embed([question])
        return float(calibrate(turns @ vector, embedder.calibration.of(vector)).max())

    least = embedder.calibration.least_among(len(turns))
    assert best_score("which pets take naps?") > least
    for question in ("quantum carburetor", "who is the president of France?", "cathedral"):
        assert best_score(question) < least


def test_a_text_in_an_unknown_script_finds_nothing() -> None:
    embedder = load(EmbeddingOptions("bge"))
    (question,) = embedder.embed(["ฉันชอบชา"])

    scores = calibrate(embedder.embed(["tea", "Ada"]) @ question, embedder.calibration.of(question))

    assert not scores.any()
