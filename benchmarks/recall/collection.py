"""What is searched and asked, whatever file it came from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple


class BadData(Exception):
    """A file is not what its name says, or there is none that is known; the message says what is
    wanted."""


class Document(NamedTuple):
    """What becomes one record."""

    id: str
    text: str
    thread: str = ""  # the conversation that it is a turn of, if any
    source: str = ""  # who said it
    at_ms: int = 0  # when, Unix ms


class Question(NamedTuple):
    """What is asked, and what should be found."""

    text: str
    gold: Mapping[str, float]  # a document's id -> how relevant it is, above 0
    category: str = ""


@dataclass(frozen=True, slots=True)
class Corpus:
    """What one store holds, and the questions to it."""

    documents: Sequence[Document]
    questions: Sequence[Question]


# (ids of what was found, best first; the question; the corpus' threads by document) -> 0 to 1
Measure = Callable[[Sequence[str], Question, Mapping[str, str]], float]


@dataclass(frozen=True, slots=True)
class Collection:
    """A data set: its stores are searched apart, and their questions counted together."""

    name: str
    corpora: Sequence[Corpus]
    measures: Mapping[str, Measure]  # by the name of their column
    digests: Mapping[str, str] = field(default_factory=dict)  # file -> SHA-256, in hex


def digests(*files: Path) -> dict[str, str]:
    """File name -> SHA-256 of what it holds, in hex; of those that there are."""
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in files if file.exists()}
