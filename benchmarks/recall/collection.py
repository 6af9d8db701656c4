"""Documents, questions and collections, independent of the file format."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple


class BadData(Exception):
    """A data file is missing or has another format. The message names the expected format."""


class Document(NamedTuple):
    """A document, which becomes one record."""

    id: str
    text: str
    thread: str = ""  # its conversation, if it is a turn
    source: str = ""  # its speaker
    at_ms: int = 0  # its time, Unix ms


class Question(NamedTuple):
    """A question and the documents that answer it."""

    text: str
    gold: Mapping[str, float]  # document id -> relevance above 0
    category: str = ""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The documents of one store and the questions to it."""

    documents: Sequence[Document]
    questions: Sequence[Question]


# (ids of the hits, best first; the question; document id -> thread) -> 0 to 1
Measure = Callable[[Sequence[str], Question, Mapping[str, str]], float]


@dataclass(frozen=True, slots=True)
class Collection:
    """A data set. Its stores are searched separately, and their questions are counted together."""

    name: str
    corpora: Sequence[Corpus]
    measures: Mapping[str, Measure]  # column name -> measure
    digests: Mapping[str, str] = field(default_factory=dict)  # file name -> SHA-256 in hex
    hits: Mapping[str, Measure] = field(default_factory=dict)  # columns of a second table


def digests(*files: Path) -> dict[str, str]:
    """Return file name -> SHA-256 in hex of the files that exist."""
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in files if file.exists()}
