"""Replaces the values that policies found in texts and in JSON, however JSON writes them.

The time is linear in the text, for any number of values.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import orjson
import re2

# The name of a field of Memrelay. It stays, also if it contains a found value.
FIELD = re.compile("[a-z_]{1,30}")
# Shorter numbers are not replaced: any count may be equal to them.
LEAST_DIGITS = 6
JSON_STARTS = ("{", "[", '"')
# A text of JSON with the colon after a name, or a number. A text without an end ends with the data.
TOKEN = re.compile(
    r'("[^"\\]*+(?:\\.[^"\\]*+)*+"?)(\s*+:)?|(?<![\w.])-?[0-9]++[0-9.eE+-]*+', re.DOTALL
)
# One pattern has so many values, of so many bytes. Longer values are few.
MOST_IN_PATTERN, LONGEST_IN_PATTERN = 10_000, 1000
MAX_MEMORY = 256 << 20


class FoundValues:
    """Found values with their replacements, the longest first: it may contain others."""

    def __init__(self, findings: Sequence[tuple[str, str]]) -> None:
        self._numbers = {
            value: json.dumps(replacement)
            for value, replacement in findings
            if value.isdecimal() and len(value) >= LEAST_DIGITS
        }
        forms = {
            form.encode(errors="surrogatepass"): replacement.encode()
            for value, replacement in findings
            for form in (value, *_escape(value))
        }
        ordered = sorted(forms, key=len, reverse=True)
        self._long = [(one, forms[one]) for one in ordered if len(one) > LONGEST_IN_PATTERN]
        short = ordered[len(self._long) :]
        self._patterns = [
            _compile(short[at : at + MOST_IN_PATTERN])
            for at in range(0, len(short), MOST_IN_PATTERN)
        ]
        self._forms = forms

    def replace_bytes(self, data: bytes) -> bytes:
        """Return data with the values replaced, as they are and in the usual forms of JSON."""
        for value, replacement in self._long:
            data = data.replace(value, replacement)
        for pattern in self._patterns:
            if pattern.search(data) is not None:
                data = pattern.sub(lambda match: self._forms[match[0]], data)
        return data

    def replace_text(self, text: str) -> str:
        """Return a text with the values replaced, also in the JSON that it holds."""
        if text.lstrip()[:1] in JSON_STARTS and _is_json(text):
            return self.replace_json(text)
        data = text.encode(errors="surrogatepass")
        replaced = self.replace_bytes(data)
        return text if replaced == data else replaced.decode(errors="surrogatepass")

    def replace_json(self, text: str, *, keeps_fields: bool = False) -> str:
        """Return valid JSON with the values replaced in its texts, and numbers that are one. With
        `keeps_fields`, names of FIELD and numbers stay, such as times.

        The texts are found without parsing the JSON around them, so its depth, the size of its
        numbers and its spaces do not matter.
        """

        def replace_token(match: re.Match[str]) -> str:
            token, colon = match[1], match[2]
            if token is None:
                return match[0] if keeps_fields else self._numbers.get(match[0], match[0])
            if keeps_fields and colon and FIELD.fullmatch(token[1:-1]):
                return match[0]
            try:
                value = json.loads(token, strict=False)
            except ValueError:  # the JSON is invalid
                return match[0]
            replaced = self.replace_text(value)
            return match[0] if replaced == value else f"{_dump(replaced)}{colon or ''}"

        return TOKEN.sub(replace_token, text)

    def replace_data(self, data: bytes) -> bytes:
        """Return the JSON of Memrelay with the values replaced, also if it is invalid. Its fields
        keep their names and numbers.
        """
        text = data.decode(errors="surrogateescape")
        replaced = self.replace_json(text, keeps_fields=True)
        after = data if replaced == text else replaced.encode(errors="surrogateescape")
        return after if _is_json(data) else self.replace_bytes(after)


def order_findings(findings: Mapping[str, str]) -> FoundValues:
    """Return findings as they are replaced. The latest ones are kept."""
    return _make(tuple(findings.items()))


_make = lru_cache(maxsize=1)(FoundValues)


def _compile(values: Sequence[bytes]) -> Any:
    options = re2.Options()
    options.log_errors, options.never_capture = False, True
    options.longest_match, options.max_mem = True, MAX_MEMORY
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(b"|".join(map(re2.escape, values)), options)


def _escape(value: str) -> Iterator[str]:
    """Yield the usual ways to write a text in JSON."""
    for is_ascii in (True, False):
        escaped = json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")


def _is_json(text: str | bytes) -> bool:
    """Return whether a text is JSON. Deep JSON is: a message has it in parts of no meaning."""
    with suppress(ValueError):
        orjson.loads(text)
        return True
    try:
        # It knows numbers and characters that orjson refuses.
        json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _dump(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return json.dumps(value)
    return json.dumps(value, ensure_ascii=False)
