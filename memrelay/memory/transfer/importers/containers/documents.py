"""Read files that hold one document, several, or single items of another system."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memrelay.memory.transfer.importers.containers.json_items import read_items

# A larger document is streamed, bytes. Then its fields outside of lists are not known.
MAX_WHOLE = 64 << 20
# Bytes that decide the source of a file.
BEGINNING = 1 << 16


def read_documents(path: Path, *lists: str) -> Iterator[tuple[str, Any]]:
    """Yield (position, value) of each line of JSON lines, each element of a list, or a document.

    A document is yielded whole, at the position `line 1`. A large one is yielded as the elements of
    its `lists`.

    Raises RefusedFile and OSError.
    """
    is_large = path.stat().st_size > MAX_WHOLE
    yield from read_items(path, *(lists if is_large else ()))


def read_list(document: dict[str, Any], key: str, position: str) -> Iterator[tuple[str, Any]]:
    """Yield (position, element) of a list of a document, nothing if there is none."""
    elements = document.get(key)
    for index, element in enumerate(elements if isinstance(elements, list) else ()):
        yield place_in(position, f"{key}[{index}]"), element


def place_in(position: str, part: str) -> str:
    """Return the position of a part of a document. `line 1`, the whole file, is left out of it."""
    return part if position == "line 1" else f"{position}, {part}"


def list_of(position: str) -> str:
    """Return the key of the list that an element of a large document is in, else ""."""
    found = re.fullmatch(r"(\w+)\[\d+\]", position)
    return "" if found is None else found[1]


def begins_with(path: Path, *groups: str) -> bool:
    """Return whether the beginning of a JSON file has all keys of one of the groups.

    A group is a text of keys, separated by spaces.
    """
    if path.is_dir():
        return False
    with path.open("rb") as file:
        text = file.read(BEGINNING).decode(errors="replace").lstrip("\ufeff \t\r\n")
    return text.startswith(("{", "[")) and any(
        all(re.search(rf'"{key}"\s*:', text) for key in group.split()) for group in groups
    )
