"""The LoCoMo layout."""

from pathlib import Path

import pytest

from benchmarks.recall.collection import BadData, Question
from benchmarks.recall.locomo import load
from tests.benchmarks.datasets import ask, conversation, write_locomo


def test_turns_are_documents_with_their_session_speaker_and_time(tmp_path: Path) -> None:
    folder = write_locomo(tmp_path / "locomo", conversation(ask("Whose puppy?", "D1:2")))

    documents = load(folder).corpora[0].documents

    assert [(one.id, one.thread, one.source) for one in documents][1:3] == [
        ("D1:2", "session_1", "Ben"),
        ("D2:1", "session_2", "Ann"),
    ]
    assert documents[0].at_ms == 1_682_949_360_000


def test_each_conversation_has_its_own_store(tmp_path: Path) -> None:
    one = conversation(ask("Whose puppy?", "D1:2"))

    corpora = load(write_locomo(tmp_path / "locomo", one, one)).corpora

    assert [len(corpus.documents) for corpus in corpora] == [5, 5]


def test_evidence_is_parsed_in_every_notation(tmp_path: Path) -> None:
    folder = write_locomo(
        tmp_path / "locomo", conversation(ask("Whose?", "D1:2; D2:03", "D9:9", category=1))
    )

    assert load(folder).corpora[0].questions == [
        Question("Whose?", {"D1:2": 1.0, "D2:3": 1.0}, "multi-hop")
    ]


def test_audited_evidence_replaces_the_evidence_of_the_question(tmp_path: Path) -> None:
    annotated = conversation(ask("Whose?", "D1:1"), ask("What?", "D1:1"))
    audit = {"locomo_1_qa1": ["D2:2"], "locomo_0_qa0": []}

    corpora = load(write_locomo(tmp_path / "locomo", annotated, annotated, audit=audit)).corpora

    assert [[dict(question.gold) for question in corpus.questions] for corpus in corpora] == [
        [{"D1:1": 1.0}],
        [{"D1:1": 1.0}, {"D2:2": 1.0}],
    ]


def test_a_part_of_the_data_set_is_matched_by_its_sample_id(tmp_path: Path) -> None:
    annotated = conversation(ask("Whose?", "D1:1")) | {"sample_id": "conv-43"}
    audit = {"locomo_0_qa0": ["D1:2"], "locomo_4_qa0": ["D2:2"]}

    (corpus,) = load(write_locomo(tmp_path / "locomo", annotated, audit=audit)).corpora

    assert [dict(question.gold) for question in corpus.questions] == [{"D2:2": 1.0}]


def test_an_audit_of_other_questions_is_rejected(tmp_path: Path) -> None:
    folder = write_locomo(
        tmp_path / "locomo",
        conversation(ask("Whose?", "D1:1")),
        audit={"locomo_0_qa0": ["D1:2"]},
        audited_question="When?",
    )

    with pytest.raises(BadData, match=r"another question \('When\?'\).*keep the `sample_id`"):
        load(folder)


def test_questions_without_evidence_are_omitted(tmp_path: Path) -> None:
    folder = write_locomo(
        tmp_path / "locomo", conversation(ask("Whose?"), ask("What?", "D7:1"), ask("Who?", "D1:1"))
    )

    assert [question.text for question in load(folder).corpora[0].questions] == ["Who?"]


def test_other_json_is_rejected_with_the_expected_format(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('[{"name": "tea"}]')

    with pytest.raises(BadData, match="a list of `qa` and `conversation`"):
        load(tmp_path)
