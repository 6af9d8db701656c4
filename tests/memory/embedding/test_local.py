"""The built-in model: that it is the one that was meant, and finds what is meant."""

import subprocess
import sys
from pathlib import Path

import pytest

from memrelay.memory.embedding.embedder import EmbeddingOptions
from memrelay.memory.embedding.loading import LazyEmbedder, load
from memrelay.memory.errors import EmbeddingFault

ROOT = Path(__file__).resolve().parent.parent.parent.parent
HEAVY = {"numpy", "onnxruntime", "tokenizers", "safetensors"}


def test_a_question_is_nearest_to_its_answer() -> None:
    embedder = load(EmbeddingOptions("local"))
    said = embedder.embed(
        [
            "Ada said: we meet at three in the afternoon",
            "Bob said: my cat sleeps all day",
            "The tea is cold",
        ]
    )

    (question,) = embedder.embed(["what time is the appointment?"])

    assert (said @ question).argmax() == 0


def test_the_vectors_are_those_of_the_model() -> None:
    """Against what Sentence Transformers publishes for its first example, within the error of int8
    weights."""
    first, second, third = load(EmbeddingOptions("local")).embed(
        ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    )

    assert first @ second == pytest.approx(0.6660, abs=0.02)
    assert first @ third == pytest.approx(0.1046, abs=0.02)
    assert second @ third == pytest.approx(0.1411, abs=0.02)


def test_what_is_in_a_script_that_the_model_does_not_know_is_near_to_nothing() -> None:
    """Its words would all have the vector of the unknown one, so that any two such texts were the
    same."""
    rows = load(EmbeddingOptions("local")).embed(
        ["ฉันชอบชา", "ประชุมวันจันทร์ เวลา 15:00 ห้อง 3", "a" * 300, "Done \u2705", "a ชา, please"]
    )

    assert rows.any(axis=1).tolist() == [False, False, False, True, True]


def test_nothing_heavy_is_loaded_before_it_is_wanted() -> None:
    program = (
        "import sys, memory.embedding.loading, cli.workers, cli.web_servers, memory.operation as found\n"
        f"found.all_operations(); print(sorted({HEAVY!r} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


def test_an_embedder_is_loaded_once() -> None:
    lazy = LazyEmbedder(EmbeddingOptions("wordllama"))

    before, first, second = lazy.loaded, lazy.get(), lazy.get()

    assert before is None
    assert first is second is lazy.loaded


def test_where_none_is_configured_the_setting_is_named() -> None:
    lazy = LazyEmbedder(EmbeddingOptions("none"))

    with pytest.raises(EmbeddingFault, match=r"set `embedding\.model`"):
        lazy.get()

    assert not lazy.configured


def test_a_package_that_is_not_installed_is_named_with_the_remedy() -> None:
    program = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "from memrelay.memory.embedding.loading import *\n"
        "try: load(EmbeddingOptions('local'))\n"
        "except EmbeddingFault as fault: print(fault)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert "lacks the package onnxruntime" in done.stdout
    assert ".[local]" in done.stdout
