"""Data sets in the BEIR layout (Thakur et al. 2021): corpus, queries and qrels/test.tsv, or
qrels/dev.tsv if that is missing."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.recall.collection import BadData, Collection, Corpus, Document, Question, digests
from benchmarks.recall.measures import gain, turn_recall

DOCUMENTS, QUESTIONS, JUDGMENTS = "corpus.jsonl", "queries.jsonl", "qrels/test.tsv"
DEVELOPMENT = "qrels/dev.tsv"
MEASURES = {"nDCG@10": gain(10), "recall@10": turn_recall(10)}


def load(folder: Path) -> Collection:
    """Return a collection with one store. A document is its title and text. Questions without gold
    are omitted.

    Raises BadData: if a file is missing or has another layout.
    """
    judgments = JUDGMENTS if (folder / JUDGMENTS).exists() else DEVELOPMENT
    files = [folder / name for name in (DOCUMENTS, QUESTIONS, judgments)]
    try:
        gold = _parse_judgments(files[2].read_text())
        documents = [
            Document(str(one["_id"]), f"{one.get('title') or ''} {one['text']}".strip())
            for one in _read_lines(files[0])
        ]
        questions = [
            Question(one["text"], gold[str(one["_id"])])
            for one in _read_lines(files[1])
            if gold.get(str(one["_id"]))
        ]
    except (OSError, KeyError, ValueError) as error:
        raise BadData(
            f"{folder}: {DOCUMENTS}, {QUESTIONS} and {JUDGMENTS} "
            f"are not in BEIR's layout: {error!r}"
        ) from error
    return Collection(
        folder.resolve().name, [Corpus(documents, questions)], MEASURES, digests(*files)
    )


def _read_lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open() as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _parse_judgments(text: str) -> dict[str, dict[str, float]]:
    """Return question -> document -> relevance above 0. The first line may be a header."""
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
