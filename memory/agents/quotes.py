"""Find texts that quote a person's identifiers."""

import re
from collections.abc import Iterable

# A shorter identifier counts only where it is a whole string, or the value of one of ID_FIELDS. A
# number such as 7 is in many texts that have nothing to do with the person.
MIN_WORD = 5
ID_FIELDS = frozenset({"id", "user_id", "chat_id", "telegram_id"})


class Quotes:
    """Finds identifiers as whole words, ignoring case. A canonical id is a word of any length."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(name.lower() for name in names if name)
        words = sorted(name for name in self.names if len(name) >= MIN_WORD or ":" in name)
        pattern = "|".join(map(re.escape, words))
        self._words = (
            re.compile(rf"(?<![\w%@.+-])(?:{pattern})(?![\w%@-]|\.\w)", re.IGNORECASE)
            if words
            else None
        )

    def __bool__(self) -> bool:
        return bool(self.names)

    def in_text(self, text: str) -> bool:
        """Return whether a text is an identifier, or has one as a word."""
        if self._words is not None and self._words.search(text):
            return True
        return text.strip().lower() in self.names

    def in_fields(self, fields: dict[str, object]) -> bool:
        """Return whether an object has an identifier as the value of an id."""
        return any(
            name in ID_FIELDS and isinstance(value, int | str) and str(value).lower() in self.names
            for name, value in fields.items()
        )
