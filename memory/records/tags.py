"""Tags as people write them: a JSON array string, an array, or a comma list."""

from typing import Any

import orjson

from memrelay.memory.errors import BadTags

RULE = 'tags are a JSON array of strings like ["important","fact"], or a comma list like important,fact'


def parse(value: Any) -> tuple[str, ...]:
    """The tags in order, doubles removed; raises BadTags."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = _split(value)
    if not isinstance(value, list | tuple) or not all(isinstance(tag, str) for tag in value):
        raise BadTags(f"{RULE}; this is {str(value)[:100]!r}")
    return tuple(dict.fromkeys(tag.strip() for tag in value if tag.strip()))


def _split(text: str) -> Any:
    if not text.lstrip().startswith(
        ("[", "{", '"')
    ):  # what begins like other JSON is no list of words either
        return text.split(",")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadTags(f"{RULE}; this is not JSON: {error}") from error
