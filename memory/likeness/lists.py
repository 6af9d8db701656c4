"""The lists of words in memory/likeness/words/, which are read once."""

from collections.abc import Iterator
from importlib.resources import files


def lines(name: str) -> Iterator[str]:
    """The lines of a list, without its comments."""
    text = files(__package__).joinpath("words", f"{name}.txt").read_text("utf-8")
    return (line for line in text.splitlines() if line and not line.startswith("#"))


def table(name: str) -> dict[str, dict[str, str]]:
    """Of lines like `mode must = must shall`: by kind, each word with its value."""
    found: dict[str, dict[str, str]] = {}
    for line in lines(name):
        head, _, words = line.partition(" = ")
        kind, _, value = head.partition(" ")
        found.setdefault(kind, {}).update(dict.fromkeys(words.split(), value))
    return found
