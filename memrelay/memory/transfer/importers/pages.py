"""Finds out whether a file is one page of a longer list, by the fields next to its list."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ijson

from memrelay.memory.transfer.importers.archives import is_container
from memrelay.memory.transfer.importers.encodings import as_utf8
from memrelay.memory.transfer.importers.json_items import MAX_WHOLE, JsonGuard, has_json_lines
from memrelay.memory.transfer.importers.source import RefusedFile

# The number of all items, and where the next page is.
TOTALS = ("count", "total", "total_count", "totalCount", "row_count")
NEXT = ("next", "next_page", "next_cursor", "nextCursor", "next_offset", "has_more", "hasMore")


def find_page(path: Path, count: int) -> str:
    """Return a note if a JSON document has `count` items of a longer list, else "".

    A large file is not read again: it is no page. Raises OSError.
    """
    is_page = path.is_file() and path.stat().st_size <= MAX_WHOLE and not is_container(path)
    fields = _read_fields(path) if is_page else {}
    totals = [fields[key] for key in TOTALS if type(fields.get(key)) is int]
    total = max(totals, default=0)
    rule = "the file is one page of a longer list"
    end = "get the other pages and import each of them"
    if total > count:
        return f"{rule}: {count:,} of {total:,} items; {end}"
    if any(fields.get(key) not in (None, False, "") for key in NEXT) and not 0 < total <= count:
        return f"{rule}: it names a next page; {end}"
    pages, page = fields.get("pages", fields.get("total_pages")), fields.get("page", 1)
    if type(pages) is int and type(page) is int and pages > 1:
        return f"{rule}: page {page:,} of {pages:,}; {end}"
    return ""


def _read_fields(path: Path) -> dict[str, Any]:
    """Return the texts, numbers and truth values of a document outside of lists and objects."""
    try:
        with path.open("rb") as file, as_utf8(file, path.name) as text:
            return {} if has_json_lines(text) else dict(_fields(JsonGuard(text, path.name)))
    except (ijson.JSONError, UnicodeDecodeError, RefusedFile):
        return {}  # The source reports what is wrong with it.


def _fields(guard: JsonGuard) -> Iterator[tuple[str, Any]]:
    for prefix, event, value in ijson.parse(guard, use_float=True):
        if prefix == "" and event == "start_array":
            return
        if event in ("string", "number", "boolean") and "." not in prefix:
            yield prefix, value
        guard.end_item()
