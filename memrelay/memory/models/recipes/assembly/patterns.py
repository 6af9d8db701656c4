"""Patterns of rules, on RE2: matching takes linear time for any pattern and text."""

from functools import lru_cache
from typing import Any

import re2

MAX_CHARACTERS = 1000
# Size of the compiled program. In the worst case each step costs 1 ns per byte of text.
MAX_STEPS = 1000
MAX_BYTES = 1 << 20
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = MAX_BYTES


def pattern_fault(source: str) -> str:
    """Return why a pattern is invalid and at which position, "" if it is valid."""
    if len(source) > MAX_CHARACTERS:
        return f"a pattern has at most {MAX_CHARACTERS} characters"
    problem = _refusal(source)
    if problem:
        return (
            f"RE2 refuses the pattern at position {_position(source, problem)}: {problem}; "
            "look-around and back-references are not available"
        )
    if (steps := _compile(source).programsize) > MAX_STEPS:
        return f"the pattern compiles to {steps} steps, at most {MAX_STEPS}; repeat less"
    return ""


def matches(source: str, text: str) -> bool:
    """Return whether a valid pattern matches anywhere in the text."""
    return _compile(source).search(text.encode()) is not None


@lru_cache(maxsize=256)
def _compile(source: str) -> Any:
    return re2.compile(source.encode(), _OPTIONS)


def _refusal(source: str) -> str:
    try:
        _compile(source)
    except re2.error as error:
        found = error.args[0]
        return found.decode(errors="replace") if isinstance(found, bytes) else str(found)
    return ""


def _position(source: str, problem: str) -> int:
    """Return where the problem is, from 1. RE2 quotes the faulty part, or the whole pattern."""
    kind, _, part = problem.partition(": ")
    if part and part != source and (at := source.find(part)) >= 0:
        return at + 1
    if kind.startswith("missing"):
        return len(source) + 1
    lengths = range(1, len(source) + 1)
    return next((n for n in lengths if _refusal(source[:n]).startswith(kind)), len(source))
