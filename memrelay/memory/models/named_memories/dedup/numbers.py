"""Normalizes numbers, times and dates: `two` is 2, `6 pm` and `18:00` are one time.

The result begins with #: `#2`, `#t18:00`, `#mar`, `#fri`, and `#fris` for every Friday. So does a
code that contains a digit. `2026-03-01` becomes a year, a month and a day.
"""

import re
from collections.abc import Sequence

from memrelay.memory.models.named_memories.dedup.tokenizer import Token
from memrelay.memory.search.text.irregular import table

WEAK = "#one"  # the word `one`, which may be just an article
_ORDINAL = "."  # after a number: the third is not three

_WORDS = table("numbers")
_NUMBERS, _SCALES, _PERIODS, _CURRENCIES = (
    _WORDS["number"],
    _WORDS["scale"],
    _WORDS["period"],
    _WORDS["currency"],
)
_MONTHS = {word: f"#{month}" for word, month in _WORDS["month"].items()}
_DAYS = {word: f"#{day}" for word, day in _WORDS["day"].items()}
_SPANS = frozenset(_WORDS["span"])
_MONTH_NUMBERS = tuple(dict.fromkeys(_MONTHS.values()))
_NUMBER_WORDS = frozenset(
    (
        *_WORDS["ordinal"],
        *_NUMBERS,
        *_SCALES,
        *_MONTHS,
        *_DAYS,
        *(f"{day}s" for day in _DAYS),
        *_PERIODS,
        *_CURRENCIES,
        *_SPANS,
        *_WORDS["other"],
    )
)
_BEFORE_SECOND = frozenset(("the", "his", "her", "our", "my", "their", "its"))
_BEFORE_TIME = frozenset(_WORDS["before-time"])
_BEFORE_HOUR = ("at", "from", "until", "till")
_HALVES = {"am": 0, "pm": 12, "morning": 0, "afternoon": 12, "evening": 12}
_ROUND = frozenset(str(number) for number in range(20, 100, 10))
_SMALL = frozenset(map(str, range(1, 10)))
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"([-+]?\d+(?:,\d{3})*(?:[.,]\d+)?)(st|nd|rd|th|[a-z\u00b5\u00b0%]{1,4})?")
_TIME = re.compile(r"(\d{1,2})[:h](\d\d)(?::00)?(am|pm)?")
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)")


def normalize_numbers(tokens: list[Token]) -> list[Token]:
    """Return the tokens with numbers, times and dates in one form."""
    texts = [token.text for token in tokens]
    if _NUMBER_WORDS.isdisjoint(texts) and _DIGIT.search(" ".join(texts)) is None:
        return tokens
    found: list[Token] = []
    for at, token in enumerate(tokens):
        found += [_add_word(token, tokens, at)] if token.text.isalpha() else _parse_digits(token)
    return _parse_periods(_order_dates(_parse_times(_combine(found))))


def _parse_digits(token: Token) -> list[Token]:
    """Parse a token with digits. Other tokens stay unchanged."""
    text = token.text
    if text in _CURRENCIES:
        return [Token(_CURRENCIES[text])]
    if not any(map(str.isdigit, text)) or text[0] == "#":
        return [token]
    if iso := _ISO.fullmatch(text):
        return [
            Token(f"#{iso[1]}"),
            Token(_MONTH_NUMBERS[(int(iso[2]) - 1) % 12]),
            Token(f"#{int(iso[3])}"),
        ]
    if time := _TIME.fullmatch(text):
        return [Token(f"#t{int(time[1]):02}:{time[2]}"), *([Token(time[3])] if time[3] else [])]
    number = _NUMBER.fullmatch(text)
    if number is None:
        parts = text.split("-")
        whole = len(parts) == 1 or not all(parts)
        return (
            [Token(f"#{text}")]
            if whole
            else [one for part in parts for one in _parse_digits(Token(part))]
        )
    value, unit = _value(number[1]), number[2]
    if unit in (None, "st", "nd", "rd", "th"):
        return [Token(value + _ORDINAL * (unit is not None))]
    return [Token(value), Token({"%": "percent"}.get(unit, unit))]


def _value(digits: str) -> str:
    """Parse digits: 1,000 is a thousand, 1,5 is one and a half. 1.000 is ambiguous and stays."""
    if re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?", digits):
        digits = digits.replace(",", "")
    return "#" + digits.replace(",", ".").lstrip("+")


def _add_word(token: Token, tokens: Sequence[Token], at: int) -> Token:
    """Parse a word that may be a number, a month or a weekday."""
    text = token.text
    before = tokens[at - 1].text if at else ""
    if text in _MONTHS and (text not in _WORDS["month-too"] or _is_month(tokens, at)):
        return Token(_MONTHS[text])
    one_day = text[:-1] if text.endswith("s") and text not in _DAYS else text
    if one_day in _DAYS and (one_day not in _WORDS["day-too"] or token.is_name):
        every = text != one_day or before in ("every", "each")
        return Token(_DAYS[one_day] + "s" * every)
    if text in _NUMBERS:
        return Token(f"#{_NUMBERS[text]}")
    if text in _WORDS["ordinal"]:
        return Token(f"#{_WORDS['ordinal'][text]}{_ORDINAL}")
    if text == "second" and before in _BEFORE_SECOND:
        return Token(f"#2{_ORDINAL}")
    return Token(WEAK) if text == "one" else token


def _is_month(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a word like `may` is a month: after `in`, next to a number, capitalized."""
    beside = [tokens[near].text for near in (at - 1, at + 1) if 0 <= near < len(tokens)]
    capital = tokens[at].is_name and tokens[at].text in ("may", "march")
    return (
        capital
        or (at > 0 and beside[0] in _WORDS["before-date"])
        or any(text[:1].isdigit() for text in beside)
    )


def _combine(tokens: list[Token]) -> list[Token]:
    """Combine numbers (twenty five, 1.5 million), and put a currency after its number."""
    found: list[Token] = []
    for token in tokens:
        before = found[-1].text if found else ""
        is_number = before[:1] == "#" and before[1:].replace(".", "", 1).isdecimal()
        if token.text in _SCALES and (is_number or before == "a"):
            found[-1] = Token(
                _number((float(before[1:]) if is_number else 1) * int(_SCALES[token.text]))
            )
        elif (
            is_number
            and before[1:] in _ROUND
            and token.text[:1] == "#"
            and token.text[1:].rstrip(_ORDINAL) in _SMALL
        ):
            found[-1] = Token(f"#{before[1]}{token.text[1:]}")
        elif is_number and token.text == "times":
            pass  # two times equals twice
        elif (
            before in _CURRENCIES.values()
            and token.text[:1] == "#"
            and (len(found) < 2 or found[-2].text[:1] != "#")
        ):
            found[-1:] = [token, found[-1]]
        elif before in _WORDS["counted"] and token.text[:1] == "#" and token.text[1:].isdecimal():
            found.append(Token(token.text + _ORDINAL))  # floor 3 is the third floor
        else:
            found.append(token)
    return found


def _number(value: float) -> str:
    return f"#{int(value)}" if value.is_integer() else f"#{value}"


def _order_dates(tokens: list[Token]) -> list[Token]:
    """Order dates as month, day, year: 30 June 2026, June 30, 2026 and 2026-06-30 are equal."""
    found: list[Token] = []
    months = frozenset(_MONTH_NUMBERS)
    for token in tokens:
        found.append(token)
        texts = [one.text for one in found[-3:]]
        if texts[-1] in months and len(texts) > 1 and _is_day(texts[-2]):
            found[-2:] = [found[-1], _cardinal(found[-2])]
        elif len(texts) == 3 and texts[-1] in months and texts[1] == "of" and _is_day(texts[0]):
            found[-3:] = [found[-1], _cardinal(found[-3])]
        elif len(texts) == 3 and texts[1] in months and _is_year(texts[0]) and _is_day(texts[2]):
            found[-3:] = [found[-2], _cardinal(found[-1]), found[-3]]
        elif len(texts) > 1 and texts[-2] in months and _is_day(texts[-1]):
            found[-1] = _cardinal(found[-1])
    return found


def _cardinal(token: Token) -> Token:
    return Token(token.text.rstrip(_ORDINAL))


def _is_day(text: str) -> bool:
    day = text[1:].rstrip(_ORDINAL)
    return text[:1] == "#" and day.isdecimal() and len(day) < 3 and 0 < int(day) < 32


def _is_year(text: str) -> bool:
    return text[:1] == "#" and text[1:].isdecimal() and len(text) == 5


def _parse_times(tokens: list[Token]) -> list[Token]:
    """Parse times of day: 6 pm, 18:00, 7:30 in the morning, noon."""
    found: list[Token] = []
    for at, token in enumerate(tokens):
        before = found[-1].text if found else ""
        half = _HALVES.get(token.text)
        clock = token.text in ("am", "pm", "uhr", "o'clock", "oclock")
        time = ""
        if _is_time(before):
            time = before
        elif _is_hour(before) and clock:
            time = f"#t{int(before[1:]):02}:00"
        if time and clock:
            found[-1] = Token(_shifted(time, half))
        elif half is not None and (hour := _hour_before_half(found)):
            found[-3:] = [Token(_shifted(hour, half))]
        elif (
            token.text in ("noon", "midday", "midnight")
            and at
            and tokens[at - 1].text in _BEFORE_TIME
        ):
            found.append(Token("#t00:00" if token.text == "midnight" else "#t12:00"))
        else:
            found.append(token)
    return found


def _hour_before_half(found: list[Token]) -> str:
    """Return the time before a final `in the`, as in 7:30 or `at nine`; "" for none."""
    texts = ["", "", "", "", *(token.text for token in found)]
    before, hour = texts[-4], texts[-3]
    if texts[-2:] != ["in", "the"]:
        return ""
    if _is_time(hour):
        return hour
    return f"#t{int(hour[1:]):02}:00" if before in _BEFORE_HOUR and _is_hour(hour) else ""


def _is_time(text: str) -> bool:
    """Return whether a word is a time of day. Tuesdays and Thursdays also begin with `#t`."""
    return text[:2] == "#t" and text[2:4].isdecimal()


def _is_hour(text: str) -> bool:
    return text[:1] == "#" and text[1:].isdecimal() and len(text) < 4 and int(text[1:]) < 25


def _shifted(time: str, half: int | None) -> str:
    """Return the time in the first or second half of the day."""
    hour, minute = int(time[2:4]), time[5:]
    return f"#t{hour if half is None else hour % 12 + half:02}:{minute}"


def _parse_periods(tokens: list[Token]) -> list[Token]:
    """Parse periods: `daily`, `every day`, `each day`, `per day` and, after a number, `a day`."""
    found: list[Token] = []
    for token in tokens:
        text = token.text
        before = found[-1].text if found else ""
        counted = before in ("a", "an") and any(one.text[:1] == "#" for one in found[-6:-1])
        if text in _PERIODS:
            found.append(Token(f"p:{_PERIODS[text]}"))
        elif text in _SPANS and (before in ("every", "each", "per") or counted):
            found[-1] = Token(f"p:{text}")
        elif text[:2] == "p:" or not (
            before in ("every", "each") and text[:1] == "#" and text[-1:] == "s"
        ):
            found.append(token)
        else:
            found[-1] = token
    return found
