"""Cranfield (Cleverdon 1967): abstracts on aerodynamics, with questions and judgements."""

import re
from collections import defaultdict
from pathlib import Path

from benchmarks.recall.collection import BadData, Collection, Corpus, Document, Question, digests
from benchmarks.recall.measures import gain, turn_recall

ABSTRACTS, QUESTIONS, JUDGEMENTS = "cran.all.1400", "cran.qry", "cranqrel"
MEASURES = {"nDCG@10": gain(10), "recall@10": turn_recall(10)}
_ENTRY = re.compile(r"^\.I +(\d+)\s*$", re.MULTILINE)
_FIELD = re.compile(r"^\.([A-Z])\s*$", re.MULTILINE)


def load(folder: Path) -> Collection:
    """A store of the abstracts; each begins with its title. A judgement is by a question's place in
    its file, from 1.

    What was judged from 1 (a complete answer) to 4 (of minimum interest) is gold, all of it alike;
    -1 is not. Raises BadData.
    """
    files = [folder / name for name in (ABSTRACTS, QUESTIONS, JUDGEMENTS)]
    try:
        abstracts, asked = (_entries(file.read_text()) for file in files[:2])
        gold: dict[int, dict[str, float]] = defaultdict(dict)
        for line in files[2].read_text().splitlines():
            place, document, judgement = (int(part) for part in line.split()[:3])
            if judgement > 0:
                gold[place][str(document)] = 1.0
        documents = [Document(id_, fields.get("W") or fields["T"]) for id_, fields in abstracts]
        questions = [
            Question(fields["W"], gold[place])
            for place, (_, fields) in enumerate(asked, start=1)
            if gold[place]
        ]
    except (OSError, KeyError, ValueError) as error:
        raise BadData(
            f"{folder}: {ABSTRACTS}, {QUESTIONS} and {JUDGEMENTS} are not those of Cranfield: {error!r}"
        ) from error
    return Collection("cranfield", [Corpus(documents, questions)], MEASURES, digests(*files))


def _entries(text: str) -> list[tuple[str, dict[str, str]]]:
    """(number after `.I`, letter -> text on one line), in the order of the file."""
    _, *parts = _ENTRY.split(text)
    return [(number, _fields(rest)) for number, rest in zip(parts[::2], parts[1::2], strict=True)]


def _fields(text: str) -> dict[str, str]:
    _, *parts = _FIELD.split(text)
    return {
        letter: " ".join(rest.split()) for letter, rest in zip(parts[::2], parts[1::2], strict=True)
    }
