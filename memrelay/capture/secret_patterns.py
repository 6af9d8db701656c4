"""The patterns of secrets for the hook: the catalog of policies, with the texts that each needs.

The hook compiles a pattern only if a text has one of its literals.
"""

import re
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from memrelay.memory.models.policies.patterns.catalog import SECRETS, SETS

# Texts of which every match has one.
Literals = tuple[str, ...]
NOTHING: Literals = ("",)
MOST_LITERALS = 64


def list_patterns() -> list[dict[str, Any]]:
    """Return the patterns of secrets as JSON values.

    Each has `name`, `source` (for `re` with the flag ASCII), `group` with the value, `check` (the
    name of a function of checks.py, or null) and `literals`. A text without any of them has no
    match. They are in lower case if `folds` is true, because the pattern then ignores case.
    """
    return [
        {
            "name": one.name,
            "source": one.source,
            "group": one.value,
            "check": one.check.__name__ if one.check else None,
            "folds": folds_case(one.source),
            "literals": list(find_literals(one.source)),
        }
        for one in SETS[SECRETS]
    ]


def folds_case(source: str) -> bool:
    """Return whether a pattern ignores case."""
    return bool(re.compile(source).flags & re.IGNORECASE)


def find_literals(source: str) -> Literals:
    """Return texts of which every match of a pattern has one; ("",) if none is known.

    The best set is the one whose shortest text is the longest.
    """
    found = _find(parser.parse(source))
    return tuple(dict.fromkeys(map(str.lower, found))) if folds_case(source) else found


def _find(parsed: Any) -> Literals:
    found, run = list[Literals](), NOTHING
    for code, argument in parsed:
        texts = _list_texts(code, argument)
        if texts is None:
            found += (run, _find_in(code, argument))
            run = NOTHING
        elif len(run) * len(texts) <= MOST_LITERALS:
            run = tuple(start + end for start in run for end in texts)
        else:
            found.append(run)
            run = texts
    return max((*found, run), key=lambda literals: min(map(len, literals)))


def _list_texts(code: Any, argument: Any) -> Literals | None:
    """Return all texts that a part of a pattern matches, None if they are many."""
    if code is codes.LITERAL:
        return (chr(argument),)
    if code is codes.AT:
        return NOTHING
    if code is codes.IN and all(one[0] is codes.LITERAL for one in argument):
        return tuple(chr(one[1]) for one in argument)
    if code is codes.SUBPATTERN:
        return _combine(argument[-1])
    if code is codes.BRANCH and None not in (ways := [_combine(one) for one in argument[1]]):
        return tuple(text for way in ways for text in way or ())
    return None


def _combine(parsed: Any) -> Literals | None:
    """Return all texts that a pattern matches, None if they are many."""
    run = NOTHING
    for code, argument in parsed:
        texts = _list_texts(code, argument)
        if texts is None or len(run) * len(texts) > MOST_LITERALS:
            return None
        run = tuple(start + end for start in run for end in texts)
    return run


def _find_in(code: Any, argument: Any) -> Literals:
    """Return the literals of a part of a pattern."""
    if code is codes.SUBPATTERN:
        return _find(argument[-1])
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT) and argument[0]:
        return _find(argument[-1])
    if code is codes.BRANCH:
        return tuple(dict.fromkeys(text for one in argument[1] for text in _find(one)))
    return NOTHING
