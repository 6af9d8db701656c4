"""Parse tags given as a JSON array string, an array or a comma-separated list."""

from typing import Any

import orjson

from memrelay.memory.errors import BadTags

RULE = (
    'tags are a JSON array of strings like ["important","fact"], or a comma-separated list like '
    "important,fact"
)


def parse(value: Any) -> tuple[str, ...]:
    """Return the tags in order without duplicates. Raises BadTags."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = _split(value)
    if not isinstance(value, list | tuple) or not all(isinstance(tag, str) for tag in value):
        raise BadTags(f"{RULE}; got {str(value)[:100]!r}")
    return tuple(dict.fromkeys(tag.strip() for tag in value if tag.strip()))


def _split(text: str) -> Any:
    if not text.lstrip().startswith(
        ("[", "{", '"')
        # A text that begins like other JSON is not a list of words either.
    ):
        return text.split(",")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadTags(f"{RULE}; invalid JSON: {error}") from error
