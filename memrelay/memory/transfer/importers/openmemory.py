"""OpenMemory: lists of its API, and the `memories.json` of a backup of mem0's OpenMemory."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from memrelay.memory.transfer.importers.archives import is_container, open_container
from memrelay.memory.transfer.importers.json_items import begins_with, has_keys, iterate
from memrelay.memory.transfer.importers.source import (
    Fact,
    Fault,
    LeftOut,
    SourceInput,
    SourceItem,
    fields_of,
    read_content,
    read_object,
    read_text,
    read_time,
    source,
    without_empty,
)

NAME = "openmemory"
FILES = re.compile(r"memories\.json")
LISTS = ("items", "memories")
GROUPS = ("content state created_at", "content primary_sector", "content app_id")
DELETED = "deleted"
FURTHER = ("state", "app_id", "app_name", "primary_sector", "sectors", "salience", "archived_at")


def detect(path: Path) -> bool:
    if not is_container(path):
        return begins_with(path, *GROUPS)
    with open_container(path) as container:
        for name in container.names(FILES)[:1]:
            with container.open(name) as file:
                return has_keys(file, *GROUPS)
    return False


@source(NAME, detect)
def read(source_input: SourceInput) -> Iterator[SourceItem]:
    """Yield the memories of a file or a backup."""
    for file, place in _open_files(source_input.file):
        for position, value in iterate(file, place or source_input.file.name, LISTS):
            yield _fact(f"{place}, {position}" if place else position, value)


def _open_files(path: Path) -> Iterator[tuple[IO[bytes], str]]:
    """Yield the open files with memories, and their names in a backup."""
    if not is_container(path):
        with path.open("rb") as file:
            yield file, ""
        return
    with open_container(path) as container:
        for name in container.names(FILES):
            with container.open(name) as file:
                yield file, name


def _fact(position: str, value: Any) -> SourceItem:
    if isinstance(value, Fault):
        return Fault(position, value.reason)
    try:
        fields = fields_of(value)
        text, user = read_content(fields, "content"), read_text(fields, "user_id")
        app = read_text(fields, "app_name") or read_text(fields, "app_id")
        about, deleted_at = user or app, read_time(fields.get("deleted_at"))
        if fields.get("state") == DELETED and deleted_at is None:
            raise LeftOut("it is deleted in OpenMemory")
        return Fact(
            position=position,
            id=read_text(fields, "id") or "\n".join((about, text)),
            text=text,
            memory=f"{NAME}/{about}" if about else NAME,
            owner=user or None,
            created_at=read_time(fields.get("created_at")),
            updated_at=read_time(fields.get("updated_at")),
            deleted_at=deleted_at,
            tags=_tags_of(fields),
            data=_metadata_of(fields) | without_empty(fields, *FURTHER),
        )
    except LeftOut as error:
        return Fault(position, str(error))


def _metadata_of(fields: dict[str, Any]) -> dict[str, Any]:
    key = "metadata_" if "metadata_" in fields else "metadata"
    return read_object(fields, key)


def _tags_of(fields: dict[str, Any]) -> tuple[str, ...]:
    """Return the tags and categories, which are lists, or texts of JSON lists."""
    found: list[str] = []
    for key in ("tags", "categories"):
        value = fields.get(key)
        if isinstance(value, str):
            value = read_object(fields, key).get(key, [])
        for one in value if isinstance(value, list) else [value] if value else []:
            found.append(str(one.get("name")) if isinstance(one, dict) else str(one))
    return tuple(found)
