"""Read dates in a question, such as "on 7 May 2023" or "in June". Records of that day or month rank
higher (docs/search-quality.md).
"""

import re
from datetime import date
from typing import NamedTuple

from memrelay.memory.text.words import tokens

# Languages with known month names.
LANGUAGES = ("english", "porter")
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
# Also ordinary words: a month only next to a day or a year.
AMBIGUOUS_MONTHS = ("may", "march", "mar", "jan", "dec", "sep")
LEAP_YEAR = 2024

_MONTH = rf"(?P<month>{'|'.join(MONTHS)})\.?"
_DAY, _YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?", r"(?P<year>(?:19|20)\d\d)"
_DATE_FORMS = [
    re.compile(form, re.IGNORECASE | re.ASCII)
    for form in (
        rf"\b{_YEAR}-(?P<number>\d\d)(?:-(?P<day>\d\d))?\b",
        rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?\b",
        rf"\b{_MONTH}\s+{_DAY}(?!\d)(?:,?\s+{_YEAR})?\b",
        rf"\b{_MONTH},?\s+{_YEAR}\b",
        rf"\b{_MONTH}(?!\w)",
    )
]
# Characters of a question that are read.
MAX_CHARACTERS = 10_000


class Times(NamedTuple):
    """The dates that a question names."""

    # Patterns of dates: `2023-05-07`, `____-05-07` for any year, `2023-05-__` for a month.
    patterns: tuple[str, ...] = ()
    # Indexed words of the question that only name dates.
    words: frozenset[str] = frozenset()


def read_times(question: str) -> Times:
    """Return the dates that a question names, each once. Each part of the text matches one form at
    most.
    """
    patterns: dict[str, None] = {}
    rest = question[:MAX_CHARACTERS]

    def replace_date(match: re.Match[str]) -> str:
        if (pattern := _pattern(match.groupdict())) is None:
            return match[0]
        patterns[pattern] = None
        return " | "

    for form in _DATE_FORMS:
        rest = form.sub(replace_date, rest)
    return Times(
        tuple(patterns),
        frozenset(tokens(question)) - frozenset(tokens(rest)) if patterns else frozenset(),
    )


def _pattern(named: dict[str, str | None]) -> str | None:
    """Return the date pattern.

    None for an invalid date such as February 30, and for a word that names a month only next to a
    number.
    """
    name, day, year = (named.get("month") or "").lower(), named.get("day"), named.get("year")
    if name in AMBIGUOUS_MONTHS and not day and not year:
        return None
    month = MONTHS.get(name) or int(named.get("number") or 0)
    try:
        date(int(year or LEAP_YEAR), month, int(day or 1))
    except ValueError:
        return None
    return f"{year or '____'}-{month:02}-{f'{int(day):02}' if day else '__'}"
