"""Read dates in a question, such as "on 7 May 2023", "in June" or "last week". Records of that time
rank higher (docs/recall.md).
"""

import re
from collections.abc import Iterable, Iterator
from datetime import MAXYEAR, UTC, date, datetime, timedelta, tzinfo
from itertools import islice
from typing import NamedTuple

from memrelay.memory.search.text.stopwords import without_stop_words
from memrelay.memory.search.text.words import tokens

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
        rf"\b(?:in|during|since)\s+{_YEAR}\b",
    )
]
_UNITS = ("day", "week", "month", "year")
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6} | {
    "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "few": 3, "couple": 2,
}  # fmt: skip
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
# Words that ask for nothing but a time: `what happened last week`.
_FILLERS = """
    happen happened happening say said talk talked discuss discussed tell told mention mentioned
    write wrote note noted go going went anything everything something new"""
FILLERS = frozenset(_FILLERS.split())
MAX_DAYS = 14  # of one expression: `a few days ago` and `two weeks ago` are not exact
# Times relative to now. The names of the groups select the reader below.
_RELATIVE = re.compile(
    rf"""\b(?:
    (?P<before_yesterday>(?:the\s+)?day\s+before\s+yesterday)
    |(?P<yesterday>yesterday|last\s+night)
    |(?P<today>today|tonight|this\s+(?:morning|afternoon|evening))
    |(?:a\s+)?(?P<count>\d{{1,3}}|{"|".join(_NUMBERS)})\s+(?:of\s+)?(?P<unit>{"|".join(_UNITS)})s?\s+ago
    |(?P<which>last|past|previous|this|current)\s+(?P<period>{"|".join(_UNITS)})
    |(?:last|past|this)\s+(?P<weekday>{"|".join(_WEEKDAYS)})
    |(?P<on>on)\s+(?P<named_day>{"|".join(_WEEKDAYS)})
    |(?P<ago>last|past|this)\s+(?P<named_month>{"|".join(MONTHS)})(?!\s*\d)
    )\b""",
    re.IGNORECASE | re.ASCII | re.VERBOSE,
)
# Characters of a question that are read.
MAX_CHARACTERS = 10_000
# Spans of time that a question may name, which bounds the conditions of its search.
MAX_SPANS = 1000
LAST_YEAR = 2100  # of a date without a year


class Times(NamedTuple):
    """The dates that a question names."""

    # Patterns of dates: `2023-05-07`, `____-05-07` for any year, `2023-05-__` for a month.
    patterns: tuple[str, ...] = ()
    # Indexed words of the question that only name dates, and fillers if it asks for nothing else.
    words: frozenset[str] = frozenset()
    # Words to leave out: `yesterday` means another date in a record.
    relative_words: frozenset[str] = frozenset()


NO_TIMES = Times()


def read_times(question: str, now_ms: int = 0, zone: tzinfo = UTC) -> Times:
    """Return the dates that a question names, each once. Each part of the text matches one form at
    most.

    Words such as `yesterday` are relative to `now_ms` in `zone`. They name no date if it is 0.
    """
    patterns: dict[str, None] = {}
    today = datetime.fromtimestamp(now_ms / 1000, zone).date() if now_ms > 0 else None

    def replace_date(match: re.Match[str]) -> str:
        found = list(_find_patterns(match, today))
        patterns.update(dict.fromkeys(found))
        return " | " if found else match[0]

    question = question[:MAX_CHARACTERS]
    absolute = rest = _RELATIVE.sub(replace_date, question)
    for form in _DATE_FORMS:
        rest = form.sub(replace_date, rest)
    if not patterns:
        return NO_TIMES
    all_words, others = frozenset(tokens(question)), frozenset(tokens(rest))
    asked = without_stop_words(tuple(others), LANGUAGES[0], others=True)
    empty = FILLERS.intersection(asked) if FILLERS.issuperset(asked) else frozenset[str]()
    return Times(
        tuple(patterns),
        all_words - others | empty,
        all_words - frozenset(tokens(absolute)) | empty,
    )


def date_phrases(pattern: str) -> list[str]:
    """Return how texts write the date of a pattern, as indexed words: `may 7`, `2023 05 07`.

    Returns nothing for a year, and for a month of any year: its words are searched for anyway.
    """
    year, month, day = pattern.split("-")
    names = [] if "_" in month else [name for name in MONTHS if MONTHS[name] == int(month)]
    if "_" not in day:
        number = str(int(day))
        numbers = [number, *(number + ending for ending in ("st", "nd", "rd", "th"))]
        phrases = [f"{name} {one}" for name in names for one in numbers]
        phrases += [f"{one} {name}" for name in names for one in numbers]
        phrases += [f"{one} of {name}" for name in names for one in numbers]
    else:
        phrases = [f"{name} {year}" for name in names] if "_" not in year else []
    return (
        [*phrases, pattern.replace("-", " ").rstrip("_ ")] if "_" not in year + month else phrases
    )


def find_spans(patterns: Iterable[str], zone: tzinfo, years: range) -> list[tuple[int, int]]:
    """Return the times of date patterns in a zone, as (first Unix ms, first Unix ms after).

    The spans are ascending and disjoint, at most MAX_SPANS. A date without a year stands for that
    date in each of `years`.
    """
    spans = islice(_spans_of(patterns, zone, years), MAX_SPANS)
    merged: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((first, end))
    return merged


def _spans_of(patterns: Iterable[str], zone: tzinfo, years: range) -> Iterator[tuple[int, int]]:
    for pattern in patterns:
        year, month, day = pattern.split("-")
        for number in years if "_" in year else (int(year),):
            first = f"{number:04}-{month}-{day}".replace("__", "01")
            try:
                begins = date.fromisoformat(first)
            except ValueError:
                continue  # February 29 of another year
            yield _unix_ms(begins, zone), _unix_ms(_find_end(begins, month, day), zone)


def _find_end(begins: date, month: str, day: str) -> date:
    """Return the day after a day, a month or a year."""
    if begins.year == MAXYEAR:
        return date.max
    if "_" not in day:
        return begins + timedelta(1)
    if "_" not in month and begins.month < 12:
        return begins.replace(month=begins.month + 1)
    return date(begins.year + 1, 1, 1)


def _unix_ms(day: date, zone: tzinfo) -> int:
    """Return the first moment of a day in a zone."""
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() * 1000)


def _find_patterns(match: re.Match[str], today: date | None) -> Iterable[str]:
    named = match.groupdict()
    if match.re is not _RELATIVE:
        return filter(None, (_pattern(named),))
    return [] if today is None else _relative(named, today)


def _relative(named: dict[str, str | None], today: date) -> Iterator[str]:
    """Yield the date patterns of a relative time."""
    days_ago = {"before_yesterday": 2, "yesterday": 1, "today": 0}
    if found := [days for name, days in days_ago.items() if named[name]]:
        yield from _days(today, found[0], 1)
    elif count := named["count"]:
        number = _NUMBERS.get(count.lower()) or int(count)
        yield from _period(today, (named["unit"] or "").lower(), number, exact=False)
    elif period := named["period"]:
        is_current = (named["which"] or "").lower() in ("this", "current")
        yield from _period(today, period.lower(), 0 if is_current else 1, exact=True)
    elif weekday := named["weekday"] or named["named_day"]:
        passed = (today.weekday() - _WEEKDAYS.index(weekday.lower())) % len(_WEEKDAYS)
        yield from _days(today, passed or len(_WEEKDAYS), 1)
    elif name := named["named_month"]:
        month, is_last = MONTHS[name.lower()], (named["ago"] or "").lower() != "this"
        if name.lower() in AMBIGUOUS_MONTHS and not is_last:
            return  # `this may work`
        year = today.year - (month > today.month or (is_last and month == today.month))
        yield f"{year}-{month:02}-__"


def _period(today: date, unit: str, number: int, *, exact: bool) -> Iterator[str]:
    """Yield the patterns of the day, week, month or year so many units before today's."""
    if unit == "day":
        spread = 0 if exact or number < 3 else 1
        yield from _days(today, number + spread, 1 + 2 * spread)
    elif unit == "week":
        monday = today.weekday() + 7 * number
        yield from _days(today, monday, 7) if exact else _days(today, 7 * number + 3, 7)
    elif unit == "month":
        months = max(12 * today.year + today.month - 1 - number, 12)
        yield f"{months // 12:04}-{months % 12 + 1:02}-__"
    else:
        yield f"{max(today.year - number, 1):04}-__-__"


def _days(today: date, ago: int, count: int) -> Iterator[str]:
    """Yield `count` days from the one so many days ago, up to today."""
    for days in range(ago, max(ago - min(count, MAX_DAYS), -1), -1):
        yield str(today - timedelta(days))


def _pattern(named: dict[str, str | None]) -> str | None:
    """Return the date pattern.

    None for an invalid date such as February 30, and for a word that names a month only next to a
    number.
    """
    name, day, year = (named.get("month") or "").lower(), named.get("day"), named.get("year")
    if name in AMBIGUOUS_MONTHS and not day and not year:
        return None
    month = MONTHS.get(name) or int(named.get("number") or 0)
    if year and not month and named.get("number") is None:
        return f"{year}-__-__"
    try:
        date(int(year or LEAP_YEAR), month, int(day or 1))
    except ValueError:
        return None
    return f"{year or '____'}-{month:02}-{f'{int(day):02}' if day else '__'}"
