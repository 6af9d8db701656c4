"""The BEIR layout, and the detection of data sets in a folder."""

from pathlib import Path

import pytest

from benchmarks.recall.beir import load
from benchmarks.recall.collection import BadData, Document, Question
from benchmarks.recall.data_sets import collections
from tests.benchmarks.datasets import ask, conversation, write_beir, write_cranfield, write_locomo


def test_a_document_joins_title_and_text(tmp_path: Path) -> None:
    found = load(write_beir(tmp_path / "drinks"))

    assert found.name == "drinks"
    assert found.corpora[0].documents == [
        Document("a", "Tea is made of leaves"),
        Document("b", "coffee"),
    ]


def test_positive_judgments_are_gold_and_questions_without_gold_are_omitted(
    tmp_path: Path,
) -> None:
    assert load(write_beir(tmp_path / "drinks")).corpora[0].questions == [
        Question("tea leaves", {"a": 2.0})
    ]


def test_judgments_do_not_need_a_header(tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "drinks")
    (folder / "qrels" / "test.tsv").write_text("q2\tb\t1\n")

    assert load(folder).corpora[0].questions == [Question("nothing is judged", {"b": 1.0})]


def test_the_development_split_is_used_without_a_test_split(tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "drinks")
    (folder / "qrels" / "test.tsv").rename(folder / "qrels" / "dev.tsv")

    assert load(folder).corpora[0].questions == [Question("tea leaves", {"a": 2.0})]


def test_all_data_sets_of_a_folder_are_found(tmp_path: Path) -> None:
    write_beir(tmp_path / "drinks")
    write_cranfield(tmp_path / "cranfield")
    write_locomo(tmp_path / "locomo", conversation(ask("Whose?", "D1:1")))

    assert [found.name for found in collections(tmp_path)] == ["cranfield", "drinks", "locomo"]
    assert [found.name for found in collections(tmp_path / "drinks")] == ["drinks"]


def test_a_folder_without_data_is_rejected_with_the_known_layouts(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="BEIR's layout"):
        collections(tmp_path)
