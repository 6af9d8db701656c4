"""Markdown: a file, a folder or a zip file of notes, such as a vault of Obsidian."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import yaml

from memrelay.memory.transfer.importers.archives import (
    is_archive,
    is_container,
    open_container,
)
from memrelay.memory.transfer.importers.encodings import as_utf8
from memrelay.memory.transfer.importers.json_items import BOM
from memrelay.memory.transfer.importers.notes import CREATED, read_tags
from memrelay.memory.transfer.importers.source import (
    NOTE_KIND,
    Fault,
    LeftOut,
    Plain,
    RefusedFile,
    SourceInput,
    SourceItem,
    make_key,
    read_time,
    source,
)

NAME = "markdown"
FILES = re.compile(r"\A.*\.(?:md|markdown)", re.IGNORECASE)
# Bytes of a note, of its front matter, and the links that a note keeps.
MAX_NOTE, MAX_FRONT_MATTER, MAX_LINKS = 4 << 20, 64 << 10, 200
# What PyYAML raises, also for tags such as `!!bool x`.
NOT_YAML = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, RecursionError)
WIKI_LINK = re.compile(r"\[\[([^\[\]|#\n]{1,300})(?:[#|][^\[\]\n]{0,300})?\]\]")
# A tag has a character that is no digit.
TAG = re.compile(r"(?:^|(?<=\s))#(?=[\w/-]*[^\W\d])([\w/-]{1,100})")
CODE = re.compile(r"^ {0,3}(```|~~~)")
ALL = re.compile(r".+")


def detect(path: Path) -> bool:
    if is_container(path):
        with open_container(path) as container:
            return bool(container.names(FILES))
    if FILES.fullmatch(path.name):
        return True
    with path.open("rb") as file, as_utf8(file, path.name) as text:
        beginning = text.read(64).removeprefix(BOM).lstrip()
    return beginning.startswith((b"---\n", b"---\r\n", b"# "))


@source(NAME, detect, is_general=True)
def read(source_input: SourceInput) -> Iterator[SourceItem]:
    """Yield the notes by their paths. The key of a note is its source, folder and path."""
    path = source_input.file
    if not is_container(path):
        with path.open("rb") as file:
            yield _note(file, path.name, (make_key(NAME, path.name), ""))
        return
    with open_container(path) as container:
        names = container.names(ALL)
        folder = _name_of(path, names)
        for name in names:
            if not FILES.fullmatch(name):
                yield Fault(name, "only Markdown files are imported from a folder")
                continue
            origin = make_key(NAME, folder or name.partition("/")[0]) + "/"
            with container.open(name) as file:
                yield _note(file, name, (origin, folder))


def _name_of(path: Path, names: list[str]) -> str:
    """Return the name of the vault, "" for a zip file that has it in its paths."""
    if not is_archive(path):
        return path.resolve().name
    tops = {name.partition("/")[0] for name in names}
    return "" if len(tops) == 1 and all("/" in name for name in names) else path.stem


def _note(file: IO[bytes], name: str, place: tuple[str, str]) -> SourceItem:
    """Return a note. `place` is the beginning of the keys, and the folder in the key."""
    origin, folder = place
    try:
        text = _read_text(file, name)
        fields, body = split_front_matter(text)
        links = list(dict.fromkeys(link.strip() for link in WIKI_LINK.findall(body)))
        title = fields.get("title") or name.rpartition("/")[2].rpartition(".")[0]
        created = next((key for key in CREATED if fields.get(key)), "")
        tags = dict.fromkeys((*read_tags(fields), *_tags_in(body)))
        placed = ("tags", "title")
        data: dict[str, Any] = {"title": str(title)}
        data |= {key: value for key, value in fields.items() if key not in placed}
        if links:
            data["links"] = links[:MAX_LINKS]
        return Plain(
            position=name,
            id=make_key(NAME, folder, name),
            key=make_key(NAME, folder, name),
            text=body.strip(),
            kind=NOTE_KIND,
            origin=origin,
            source=NAME,
            tags=tuple(tags),
            created_at=read_time(fields.get(created)),
            data=data,
        )
    except LeftOut as error:
        return Fault(name, str(error))


def _read_text(file: IO[bytes], name: str) -> str:
    content = file.read(MAX_NOTE + 1)
    if len(content) > MAX_NOTE:
        raise LeftOut(f"the note has more than {MAX_NOTE >> 20} MiB; split it")
    try:
        with as_utf8(io.BytesIO(content), name) as encoded:
            text = encoded.read().decode("utf-8-sig")
    except (UnicodeDecodeError, RefusedFile) as error:
        raise LeftOut("the note is not UTF-8; save it as UTF-8") from error
    if "\0" in text:
        raise LeftOut("the file is not text")
    return text.replace("\r\n", "\n")


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return (fields, body). Front matter that is no YAML object stays in the body."""
    if not text.startswith("---\n"):
        return {}, text
    end = text.find("\n---", 3, MAX_FRONT_MATTER)
    after = text[end + 4 : end + 5]
    if end < 0 or after not in ("", "\n", " ", "-"):
        return {}, text
    try:
        # As JSON: keys are texts, and a value of another type becomes a text.
        fields = json.loads(json.dumps(yaml.load(text[4 : end + 1], Loader=_Loader), default=str))
    except NOT_YAML:
        return {}, text
    if fields is None:
        fields = {}
    if not isinstance(fields, dict):
        return {}, text
    return fields, text[end + 4 :].lstrip("- ")


class _Loader(yaml.SafeLoader):
    """Reads YAML with dates as texts and without aliases, which could expand."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _tags_in(body: str) -> Iterator[str]:
    """Yield the tags in a text outside of blocks of code."""
    is_code = False
    for line in body.split("\n"):
        if CODE.match(line):
            is_code = not is_code
        elif not is_code:
            yield from TAG.findall(line)
