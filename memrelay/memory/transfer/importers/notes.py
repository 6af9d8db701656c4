"""Notes: JSON lines or a list of objects like `{"content": ...}`, or of plain texts."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memrelay.memory.transfer.importers.encodings import as_utf8
from memrelay.memory.transfer.importers.json_items import begins_with, read_items
from memrelay.memory.transfer.importers.source import (
    NOTE_KIND,
    Fault,
    LeftOut,
    Plain,
    SourceInput,
    SourceItem,
    fields_of,
    make_key,
    read_content,
    read_expiry,
    read_text,
    read_time,
    source,
)

NAME = "notes"
# The names of the field with the text: the first one that a note has.
CONTENT = ("content", "text", "note", "memory", "body")
LISTS = ("notes", "memories", "items", "records", "results", "entries", "data")
CREATED = ("created_at", "createdAt", "created", "date", "timestamp", "time")
# Fields that a record has too.
PLACED = ("id", "tags", "owner", "user_id", "thread", "expires_at", "expiration_date")


def detect(path: Path) -> bool:
    return begins_with(path, *CONTENT) or _has_texts(path)


def _has_texts(path: Path) -> bool:
    """Return whether a file is a list or lines of plain texts."""
    if path.is_dir():
        return False
    with path.open("rb") as file, as_utf8(file, path.name) as text:
        beginning = text.read(256).lstrip(b"\xef\xbb\xbf \t\r\n")
    return beginning[:1] == b'"' or beginning.removeprefix(b"[").lstrip()[:1] == b'"'


@source(NAME, detect, is_general=True)
def read(source_input: SourceInput) -> Iterator[SourceItem]:
    """Yield the notes of a file."""
    path = source_input.file
    for position, value in read_items(path, *LISTS):
        if isinstance(value, Fault):
            yield value
            continue
        try:
            fields = {CONTENT[0]: value} if isinstance(value, str) else fields_of(value)
            content = source_input.content or find_content(fields)
            yield make_note(position, fields, content, (NAME, path.name))
        except LeftOut as error:
            yield Fault(position, str(error))


def find_content(fields: Mapping[str, Any]) -> str:
    """Return the name of the field with the text. Raises LeftOut."""
    for name in CONTENT:
        if name in fields:
            return name
    raise LeftOut(f"it has none of the fields {', '.join(CONTENT)}; name one with --content")


def make_note(
    position: str, fields: Mapping[str, Any], content: str, origin: tuple[str, str]
) -> Plain:
    """Return a note. `origin` is its source and file. Raises LeftOut.

    A note with an id has a key, so that a second import of the file changes it.
    """
    text, ident = read_content(fields, content), read_text(fields, "id")
    created = next((name for name in CREATED if name in fields), "")
    others = {
        name: value
        for name, value in fields.items()
        if name not in (*PLACED, content, created) and value not in (None, "", [], {})
    }
    return Plain(
        position=position,
        id=make_key(*origin, ident) if ident else f"{text}\n{fields.get(created)}",
        key=make_key(*origin, ident) if ident else None,
        origin=make_key(*origin) + "/" if ident else "",
        text=text,
        kind=NOTE_KIND,
        source=origin[0],
        tags=read_tags(fields),
        owner=read_text(fields, "owner") or read_text(fields, "user_id") or None,
        thread=read_text(fields, "thread") or None,
        created_at=read_time(fields.get(created)),
        expires_at=read_expiry(fields.get("expires_at") or fields.get("expiration_date")),
        data=others,
    )


def read_tags(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tags: a list, or a text with commas. Raises LeftOut."""
    value = fields.get("tags") or ()
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple):
        raise LeftOut("`tags` is neither a list nor a text")
    return tuple(str(tag).strip().removeprefix("#") for tag in value if tag is not None)
