"""Any data set in the layout of BEIR (Thakur et al. 2021): corpus.jsonl, queries.jsonl,
qrels/test.tsv."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.recall.collection import BadData, Collection, Corpus, Document, Question, digests
from benchmarks.recall.measures import gain, turn_recall

DOCUMENTS, QUESTIONS, JUDGEMENTS = "corpus.jsonl", "queries.jsonl", "qrels/test.tsv"
MEASURES = {"nDCG@10": gain(10), "recall@10": turn_recall(10)}


def load(folder: Path) -> Collection:
    """A store of the corpus, each document with its title before its text. Questions without gold
    are left out.

    Raises BadData.
    """
    files = [folder / name for name in (DOCUMENTS, QUESTIONS, JUDGEMENTS)]
    try:
        gold = _judgements(files[2].read_text())
        documents = [
            Document(str(one["_id"]), f"{one.get('title') or ''} {one['text']}".strip())
            for one in _lines(files[0])
        ]
        questions = [
            Question(one["text"], gold[str(one["_id"])])
            for one in _lines(files[1])
            if gold.get(str(one["_id"]))
        ]
    except (OSError, KeyError, ValueError) as error:
        raise BadData(
            f"{folder}: {DOCUMENTS}, {QUESTIONS} and {JUDGEMENTS} are not in BEIR's layout: {error!r}"
        ) from error
    return Collection(
        folder.resolve().name, [Corpus(documents, questions)], MEASURES, digests(*files)
    )


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open() as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _judgements(text: str) -> dict[str, dict[str, float]]:
    """Question -> document -> how relevant it is, above 0. The first line may be a heading."""
    gold: dict[str, dict[str, float]] = defaultdict(dict)
    for number, line in enumerate(text.splitlines()):
        question, document, score = line.split("\t")[:3]
        if number == 0 and not _is_number(score):
            continue
        if float(score) > 0:
            gold[question][document] = float(score)
    return gold


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
