"""Irregular English words and their base forms, and the reader of the lists in words/."""

from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple


def lines(name: str) -> Iterator[str]:
    """Yield the lines of a list without comments."""
    text = files(__package__).joinpath("irregular_words", f"{name}.txt").read_text("utf-8")
    return (line for line in text.splitlines() if line and not line.startswith("#"))


def table(name: str) -> dict[str, dict[str, str]]:
    """Return kind -> word -> value from lines like `mode must = must shall`."""
    found: dict[str, dict[str, str]] = {}
    for line in lines(name):
        head, _, words = line.partition(" = ")
        kind, _, value = head.partition(" ")
        found.setdefault(kind, {}).update(dict.fromkeys(words.split(), value))
    return found


class Forms(NamedTuple):
    """Irregular words."""

    base: dict[str, str]  # form -> base form
    past: frozenset[str]  # past forms and participles
    finite: frozenset[str]  # past forms that are not participles
    timeless: frozenset[str]  # verbs whose past equals the present
    participles: frozenset[str]
    plurals: frozenset[str]  # of nouns
    verbs: dict[str, list[str]]  # verb -> past form, and the participle if it differs


def _irregular() -> Forms:
    rows = [line.split() for line in lines("irregular")]
    verbs = [row for row in rows if row[0] != "+" and len(row) > 1]
    base = {form: row[0] for row in verbs for form in row[1:]}
    base |= {form: row[1] for row in rows if row[0] == "+" for form in row[2:]}
    plurals = frozenset(form for row in rows if row[0] == "+" for form in row[2:])
    timeless = frozenset(row[0] for row in verbs if row[1] == row[0])
    past = frozenset(row[1] for row in verbs) - timeless
    finite = frozenset(row[1] for row in verbs if len(row) > 2 and row[2] != row[1])
    return Forms(
        base,
        past,
        finite,
        timeless,
        frozenset(row[-1] for row in verbs),
        plurals,
        {row[0]: row[1:] for row in verbs},
    )


FORMS = _irregular()
