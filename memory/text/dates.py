"""Times that a question names, "on 7 May 2023" or "in June": records of such a day or month count
more (docs/search-quality.md)."""

import re
from datetime import date
from typing import NamedTuple

from memrelay.memory.text.words import tokens

LANGUAGES = ("english", "porter")  # whose months are known
MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sept sep",
            "october oct",
            "november nov",
            "december dec",
        ),
        1,
    )
    for name in names.split()
}
WORDS_TOO = ("may", "march", "mar", "jan", "dec", "sep")  # say a month only beside a day or a year
LEAP_YEAR = 2024

_MONTH = rf"(?P<month>{'|'.join(MONTHS)})\.?"
_DAY, _YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?", r"(?P<year>(?:19|20)\d\d)"
_FORMS = [
    re.compile(form, re.IGNORECASE | re.ASCII)
    for form in (
        rf"\b{_YEAR}-(?P<number>\d\d)(?:-(?P<day>\d\d))?\b",
        rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?\b",
        rf"\b{_MONTH}\s+{_DAY}(?!\d)(?:,?\s+{_YEAR})?\b",
        rf"\b{_MONTH},?\s+{_YEAR}\b",
        rf"\b{_MONTH}(?!\w)",
    )
]
LONGEST = 10_000  # characters of a question that are looked at


class Times(NamedTuple):
    """What a question says of times."""

    patterns: tuple[
        str, ...
    ] = ()  # of dates: `2023-05-07`, `____-05-07` of any year, `2023-05-__` a month
    words: frozenset[str] = (
        frozenset()
    )  # of the question, as the index has them, that say nothing else


def read_times(question: str) -> Times:
    """The times that a question names, each once. What one form takes is no other's."""
    patterns: dict[str, None] = {}
    rest = question[:LONGEST]

    def take(match: re.Match[str]) -> str:
        if (pattern := _pattern(match.groupdict())) is None:
            return match[0]
        patterns[pattern] = None
        return " | "

    for form in _FORMS:
        rest = form.sub(take, rest)
    return Times(
        tuple(patterns),
        frozenset(tokens(question)) - frozenset(tokens(rest)) if patterns else frozenset(),
    )


def _pattern(named: dict[str, str | None]) -> str | None:
    """None for what is no time: a 30th of February, or a word that is a month only beside a
    number."""
    name, day, year = (named.get("month") or "").lower(), named.get("day"), named.get("year")
    if name in WORDS_TOO and not day and not year:
        return None
    month = MONTHS.get(name) or int(named.get("number") or 0)
    try:
        date(int(year or LEAP_YEAR), month, int(day or 1))
    except ValueError:
        return None
    return f"{year or '____'}-{month:02}-{f'{int(day):02}' if day else '__'}"
