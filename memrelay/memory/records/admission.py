"""Texts that are no records, as policies let them in: of rows, of JSON, and names."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from memrelay.memory.engine.records import RecordTable


def admit_names(records: RecordTable, kind: str, names: Sequence[str]) -> None:
    """Raise PolicyStop if a policy finds something in names by which a row is found. They cannot
    be redacted.
    """
    if records.path.admit_texts:
        records.admit_texts(kind, (), names)


def admit_json(records: RecordTable, kind: str, text: str) -> str:
    """Return JSON with its strings as the policies let them in. Raises PolicyStop."""
    return orjson.dumps(admit_value(records, kind, orjson.loads(text))).decode()


def admit_value(records: RecordTable, kind: str, value: Any) -> Any:
    """Return a JSON value with its strings as the policies let them in. Raises PolicyStop."""
    texts = list(dict.fromkeys(find_strings(value)))
    admitted = dict(zip(texts, records.admit_texts(kind, texts), strict=True))
    return replace_strings(value, lambda text: admitted[text])


def find_strings(value: Any) -> Iterator[str]:
    """Yield every string of a JSON value, keys of objects too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from find_strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from find_strings(inner)


def replace_strings(value: Any, replace: Callable[[str], str]) -> Any:
    """Return a JSON value with every string replaced, keys of objects too."""
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, dict):
        return {replace(key): replace_strings(inner, replace) for key, inner in value.items()}
    if isinstance(value, list):
        return [replace_strings(inner, replace) for inner in value]
    return value
