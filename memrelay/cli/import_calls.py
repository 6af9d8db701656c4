"""Split lines into calls of records.import."""

import secrets
from collections.abc import Iterable, Iterator
from typing import Any

from memrelay.memory.transfer import MAX_LINES

# A call holds this fraction of bus.max_message_bytes in characters of at most four bytes.
SHARE = 5


def split_calls(
    lines: Iterable[tuple[str, str]], max_characters: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (store, input) per call. A line that is too long for one call is sent in pieces."""
    page: list[str] = []
    size, store = 0, ""
    for name, line in lines:
        is_full = size + len(line) > max_characters or len(page) == MAX_LINES
        if page and (name != store or is_full):
            yield store, {"lines": page}
            page, size = [], 0
        store = name
        if len(line) <= max_characters:
            page.append(line)
            size += len(line)
            continue
        # The token keeps the pieces of concurrent imports separate.
        rest, token = (len(line) - 1) // max_characters * max_characters, secrets.token_hex(8)
        for at in range(0, rest, max_characters):
            yield store, {"piece": line[at : at + max_characters], "at": at, "of": token}
        yield store, {"lines": [line[rest:]], "at": rest, "of": token}
    if page:
        yield store, {"lines": page}
