"""The Cranfield layout."""

from pathlib import Path

import pytest

from benchmarks.recall.collection import BadData, Document, Question
from benchmarks.recall.cranfield import load
from tests.benchmarks.datasets import write_cranfield


def test_documents_are_the_abstracts(tmp_path: Path) -> None:
    found = load(write_cranfield(tmp_path / "cranfield"))

    assert found.corpora[0].documents == [
        Document("1", "wings in a slipstream ."),
        Document("2", "heat in slabs ."),
    ]


def test_a_judgment_refers_to_the_position_of_its_question(tmp_path: Path) -> None:
    found = load(write_cranfield(tmp_path / "cranfield"))

    assert found.corpora[0].questions == [
        Question("what of wings in streams .", {"1": 1.0}),
        Question("what of heat .", {"2": 1.0}),
    ]


def test_the_digests_of_the_files_are_recorded(tmp_path: Path) -> None:
    found = load(write_cranfield(tmp_path / "cranfield"))

    assert (
        found.digests["cranqrel"]
        == "9942e6f50ac46968be944843ea29a83fb1d24b0d455de3c5eaa14c9a39b0bfb4"
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = write_cranfield(tmp_path / "cranfield")
    (folder / "cranqrel").unlink()

    with pytest.raises(BadData, match="cranqrel"):
        load(folder)
