"""BEIR's layout, and how a folder's data sets are told apart."""

from pathlib import Path

import pytest

from benchmarks.recall.beir import load
from benchmarks.recall.collection import BadData, Document, Question
from benchmarks.recall.folder import collections
from tests.benchmarks.datasets import ask, conversation, write_beir, write_cranfield, write_locomo


def test_a_document_is_its_title_and_its_text(tmp_path: Path) -> None:
    found = load(write_beir(tmp_path / "drinks"))

    assert found.name == "drinks"
    assert found.corpora[0].documents == [
        Document("a", "Tea is made of leaves"),
        Document("b", "coffee"),
    ]


def test_what_was_judged_above_zero_is_gold_and_a_question_without_gold_is_left_out(
    tmp_path: Path,
) -> None:
    assert load(write_beir(tmp_path / "drinks")).corpora[0].questions == [
        Question("tea leaves", {"a": 2.0})
    ]


def test_judgements_need_no_heading(tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "drinks")
    (folder / "qrels" / "test.tsv").write_text("q2\tb\t1\n")

    assert load(folder).corpora[0].questions == [Question("nothing is judged", {"b": 1.0})]


def test_a_folder_of_data_sets_has_them_all(tmp_path: Path) -> None:
    write_beir(tmp_path / "drinks")
    write_cranfield(tmp_path / "cranfield")
    write_locomo(tmp_path / "locomo", conversation(ask("Whose?", "D1:1")))

    assert [found.name for found in collections(tmp_path)] == ["cranfield", "drinks", "locomo"]
    assert [found.name for found in collections(tmp_path / "drinks")] == ["drinks"]


def test_a_folder_without_any_is_refused_with_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="BEIR's layout"):
        collections(tmp_path)
