"""LoCoMo (Maharana et al. 2024): long conversations with questions whose evidence is named by turn.

Each conversation is a store, each of its sessions a thread, and each turn a document. If the folder
contains an audit of the data set, its evidence replaces that of the question. The audit counts the
conversations of the whole data set, so a part of it is matched by the `sample_id`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.recall.collection import BadData, Collection, Corpus, Document, Question, digests
from benchmarks.recall.measures import all_of, any_of, session_recall, turn_recall

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
MEASURES = {
    "turn@5": turn_recall(5),
    "turn@10": turn_recall(10),
    "session@5": session_recall(5),
    "session@10": session_recall(10),
}
HITS = {
    f"{name} {column}": change(measure)
    for column, measure in MEASURES.items()
    for name, change in (("any", any_of), ("all", all_of))
}
# The conversations of the whole data set, in order: an audit names them by their number.
SAMPLES = tuple(f"conv-{number}" for number in (26, 30, 41, 42, 43, 44, 47, 48, 49, 50))
AUDIT = "audit"  # part of the file name of an audit
_EVIDENCE = re.compile(r"D(\d+):(\d+)")
_SESSION = re.compile(r"session_(\d+)")
_WHEN = "%I:%M %p on %d %B, %Y"


def load(folder: Path) -> Collection:
    """Return all conversations of a folder. Raises BadData: if a file has another format."""
    files = sorted(folder.glob("*.json"))
    corrected, conversations = {}, []
    try:
        for file in files:
            found = json.loads(file.read_bytes())
            if AUDIT in file.name:
                corrected.update({entry["question_id"]: entry for entry in found})
            else:
                conversations += found
        corpora = [
            _make_corpus(number, found, corrected) for number, found in enumerate(conversations)
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise BadData(
            f"{folder}: its *.json are not LoCoMo's conversations "
            f"(a list of `qa` and `conversation`) and an audit "
            f"(a list of `question_id` and `correct_evidence`): {error!r}"
        ) from error
    return Collection("locomo", corpora, MEASURES, digests(*files), HITS)


def _make_corpus(
    place: int, found: Mapping[str, Any], corrected: Mapping[str, Mapping[str, Any]]
) -> Corpus:
    sample = found.get("sample_id")
    number = SAMPLES.index(sample) if sample in SAMPLES else place
    documents = [
        document
        for session in _list_sessions(found["conversation"])
        for document in _make_documents(found["conversation"], session)
    ]
    known = {document.id for document in documents}
    questions = []
    for index, annotated in enumerate(found["qa"]):
        audited = corrected.get(f"locomo_{number}_qa{index}", {})
        _check_question(audited, annotated)
        evidence = audited.get("correct_evidence", annotated.get("evidence", []))
        if gold := dict.fromkeys((one for one in _parse_evidence(evidence) if one in known), 1.0):
            questions.append(
                Question(annotated["question"], gold, CATEGORIES[annotated["category"]])
            )
    return Corpus(documents, questions)


def _check_question(audited: Mapping[str, Any], annotated: Mapping[str, Any]) -> None:
    if audited.get("question", annotated["question"]) != annotated["question"]:
        raise BadData(
            f"the audit's {audited['question_id']} is about another question "
            f"({audited['question']!r}) than the conversation's ({annotated['question']!r}): "
            "keep the `sample_id` of each conversation and the order of its questions, or remove "
            "the audit"
        )


def _list_sessions(conversation: Mapping[str, Any]) -> list[int]:
    return sorted(int(match[1]) for key in conversation if (match := _SESSION.fullmatch(key)))


def _make_documents(conversation: Mapping[str, Any], session: int) -> Iterator[Document]:
    thread = f"session_{session}"
    when = datetime.strptime(conversation[f"{thread}_date_time"], _WHEN).replace(tzinfo=UTC)
    for turn in conversation[thread]:
        yield Document(
            turn["dia_id"], turn["text"], thread, turn["speaker"], int(when.timestamp() * 1000)
        )


def _parse_evidence(evidence: Iterable[str]) -> Iterator[str]:
    """Return the turn ids. `D8:6; D9:17` contains two, and `D30:05` is `D30:5`."""
    for text in evidence:
        for session, turn in _EVIDENCE.findall(text):
            yield f"D{int(session)}:{int(turn)}"
