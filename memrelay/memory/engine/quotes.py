"""Find the texts and values that an erasure has to remove: those that have a text, or that quote a
person's identifiers.
"""

import re
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec
import orjson

# A shorter identifier, and one that is a plain word, counts only as the value of one of ID_FIELDS:
# a number such as 7 and a name such as Rose are in many texts about something else.
MIN_WORD = 5
ID_FIELDS = frozenset(
    {"id", "user_id", "chat_id", "telegram_id", "username", "email", "canonical_id"}
)
IS_DISTINCT = re.compile(r"[\d@]")


class Matcher(Protocol):
    """Decides what is to be erased."""

    def in_text(self, text: str) -> bool:
        """Return whether a text has to be erased."""

    def in_data(self, data: bytes) -> bool:
        """Return whether a serialized value has to be erased."""


class TextMatcher:
    """A text, also as JSON escapes it."""

    def __init__(self, text: str) -> None:
        self._text, self._forms = text, {text.encode(), orjson.dumps(text)[1:-1]}

    def in_text(self, text: str) -> bool:
        """Return whether a text contains it."""
        return self._text in text or self.in_data(text.encode())

    def in_data(self, data: bytes) -> bool:
        """Return whether a serialized value contains it."""
        return any(form in data for form in self._forms)


class Quotes:
    """Finds identifiers as whole words, ignoring case. A canonical id is a word of any length."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(name.lower() for name in names if name)
        words = sorted(filter(_is_word, self.names))
        pattern = "|".join(map(re.escape, words))
        self._words = (
            re.compile(rf"(?<![\w%@.+-])(?:{pattern})(?![\w%@-]|\.\w)", re.IGNORECASE)
            if words
            else None
        )

    def __bool__(self) -> bool:
        return bool(self.names)

    def in_text(self, text: str) -> bool:
        """Return whether a text has an identifier as a word."""
        return self._words is not None and self._words.search(text) is not None

    def in_fields(self, fields: dict[Any, Any]) -> bool:
        """Return whether an object has an identifier as the value of an id."""
        return any(
            name in ID_FIELDS and isinstance(value, int | str) and str(value).lower() in self.names
            for name, value in fields.items()
        )

    def in_data(self, data: bytes) -> bool:
        """Return whether a serialized value has an identifier: msgpack, or else text."""
        try:
            return self._in(_decode(data))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self.in_text(data.decode(errors="replace"))

    def _in(self, value: Any) -> bool:
        if isinstance(value, bytes):
            return self.in_text(value.decode(errors="replace"))
        if isinstance(value, str):
            return self.in_text(value)
        if isinstance(value, dict):
            return self.in_fields(value) or any(map(self._in, (*value, *value.values())))
        return isinstance(value, list) and any(map(self._in, value))


def _is_word(name: str) -> bool:
    return ":" in name or (len(name) >= MIN_WORD and IS_DISTINCT.search(name) is not None)


def _decode(data: bytes | memoryview) -> Any:
    return msgspec.msgpack.decode(data, strict=False, ext_hook=lambda _code, inner: _decode(inner))
