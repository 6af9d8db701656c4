"""The Cranfield collection (Cleverdon 1967): abstracts on aerodynamics with questions and
judgments."""

import re
from collections import defaultdict
from pathlib import Path

from benchmarks.recall.collection import BadData, Collection, Corpus, Document, Question, digests
from benchmarks.recall.measures import gain, turn_recall

ABSTRACTS, QUESTIONS, JUDGMENTS = "cran.all.1400", "cran.qry", "cranqrel"
MEASURES = {"nDCG@10": gain(10), "recall@10": turn_recall(10)}
_ENTRY = re.compile(r"^\.I +(\d+)\s*$", re.MULTILINE)
_FIELD = re.compile(r"^\.([A-Z])\s*$", re.MULTILINE)


def load(folder: Path) -> Collection:
    """Return a collection with one store of the abstracts. Each begins with its title.

    A judgment refers to its question by position, from 1. Judgments from 1 (a complete answer) to 4
    (of minimum interest) are equal gold; -1 is not gold.

    Raises BadData: if a file is missing or has another layout.
    """
    files = [folder / name for name in (ABSTRACTS, QUESTIONS, JUDGMENTS)]
    try:
        abstracts, queries = (_split_entries(file.read_text()) for file in files[:2])
        gold: dict[int, dict[str, float]] = defaultdict(dict)
        for line in files[2].read_text().splitlines():
            place, document, judgment = (int(part) for part in line.split()[:3])
            if judgment > 0:
                gold[place][str(document)] = 1.0
        documents = [Document(id_, fields.get("W") or fields["T"]) for id_, fields in abstracts]
        questions = [
            Question(fields["W"], gold[place])
            for place, (_, fields) in enumerate(queries, start=1)
            if gold[place]
        ]
    except (OSError, KeyError, ValueError) as error:
        raise BadData(
            f"{folder}: {ABSTRACTS}, {QUESTIONS} and {JUDGMENTS} "
            f"are not in Cranfield's layout: {error!r}"
        ) from error
    return Collection("cranfield", [Corpus(documents, questions)], MEASURES, digests(*files))


def _split_entries(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return (number after `.I`, field letter -> text on one line) in file order."""
    _, *parts = _ENTRY.split(text)
    return [
        (number, _split_fields(rest)) for number, rest in zip(parts[::2], parts[1::2], strict=True)
    ]


def _split_fields(text: str) -> dict[str, str]:
    _, *parts = _FIELD.split(text)
    return {
        letter: " ".join(rest.split()) for letter, rest in zip(parts[::2], parts[1::2], strict=True)
    }
