"""ChatGPT: the conversations of an export, as a zip file or its `conversations.json`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from memrelay.memory.transfer.importers.chatgpt_tree import Tree
from memrelay.memory.transfer.importers.containers.archives import is_archive, open_archive
from memrelay.memory.transfer.importers.containers.documents import begins_with
from memrelay.memory.transfer.importers.containers.json_items import iterate
from memrelay.memory.transfer.importers.fields import fields_of, read_text, without_empty
from memrelay.memory.transfer.importers.items import Fault, Found, LeftOut, Turn
from memrelay.memory.transfer.importers.source import Given, RefusedFile, source
from memrelay.memory.transfer.importers.times import read_time

NAME = "chatgpt"
# A large export has several files: conversations-000.json and so on.
CONVERSATIONS = re.compile(r"conversations(-\d+)?\.json")
ROLES = ("user", "assistant")
CONTENT_TYPES = ("text", "multimodal_text")
# The recipient of messages to the user. Others are tools.
EVERYBODY = ("", "all")
OTHER_BRANCH = "it is on another branch of the conversation; --all-branches imports it"


def detect(path: Path) -> bool:
    """Return whether a file is an export of ChatGPT."""
    if is_archive(path):
        with open_archive(path) as archive:
            return bool(archive.names(CONVERSATIONS))
    return begins_with(path, "mapping parent")


@source(NAME, detect, has_branches=True)
def read(given: Given) -> Iterator[Found]:
    """Yield the messages of user and assistant as turns."""
    for file, name in _documents(given.file):
        for position, value in iterate(file, name, ()):
            place = f"{name}{'' if position.startswith('[') else ' '}{position}"
            if isinstance(value, Fault):
                yield Fault(place, value.reason)
                continue
            try:
                chat = _Chat(fields_of(value), place)
            except LeftOut as error:
                yield Fault(place, str(error))
                continue
            yield from chat.messages(given.all_branches)


def _documents(path: Path) -> Iterator[tuple[IO[bytes], str]]:
    """Yield the open files of conversations and their names. Raises RefusedFile."""
    if not is_archive(path):
        with path.open("rb") as file:
            yield file, path.name
        return
    with open_archive(path) as archive:
        names = archive.names(CONVERSATIONS)
        if not names:
            raise RefusedFile(f"{path.name} has no conversations.json; choose an export of ChatGPT")
        for name in names:
            with archive.open(name) as file:
                yield file, name


class _Chat:
    """A conversation."""

    def __init__(self, fields: dict[str, Any], place: str) -> None:
        """Raises LeftOut: the conversation has no id or no valid tree."""
        self._fields = fields
        self._place = place
        self._thread = read_text(fields, "conversation_id") or read_text(fields, "id")
        if not self._thread:
            raise LeftOut("the conversation has no id")
        self._tree = Tree(fields.get("mapping"))

    def messages(self, all_branches: bool) -> Iterator[Found]:
        """Yield the messages in depth-first order, with those left out."""
        try:
            path = {} if all_branches else self._tree.path_to(self._fields.get("current_node"))
        except LeftOut as error:
            yield Fault(self._place, str(error))
            return
        for number, node in enumerate(self._tree.nodes()):
            message = self._tree.message(node)
            if message is None:
                continue
            place = f"{self._place}, message {_shown(node)}"
            if not all_branches and node not in path:
                yield Fault(place, OTHER_BRANCH)
                continue
            try:
                yield from self._turn(node, place, number if all_branches else path[node])
            except LeftOut as error:
                yield Fault(place, str(error))

    def _turn(self, node: str, place: str, seq: int) -> Iterator[Found]:
        """Yield a message as a turn, after its parts that are no text. Raises LeftOut."""
        message = fields_of(self._tree.message(node))
        role = read_text(fields_of(message.get("author")), "role")
        content = fields_of(message.get("content"))
        _check_kind(role, read_text(content, "content_type"), read_text(message, "recipient"))
        created_at = read_time(message.get("create_time"))
        if created_at is None:
            created_at = read_time(self._fields.get("create_time"))
        metadata = message.get("metadata")
        model = metadata.get("model_slug") if isinstance(metadata, dict) else None
        texts, others = _split(content.get("parts"))
        for index, kind in others:
            yield Fault(f"{place}, part {index}", f"{kind} is not imported")
        text = "\n".join(texts)
        if not text.strip() and others:
            return
        data = {"title": self._fields.get("title"), "model": model}
        data["parent"] = self._tree.parent(node)
        yield Turn(
            position=place,
            id=f"{self._thread}\n{node}",
            text=text,
            thread=self._thread,
            seq=seq,
            source=role,
            created_at=created_at,
            data=without_empty(data, *data),
        )


def _check_kind(role: str, content_type: str, recipient: str) -> None:
    """Raise LeftOut if a message has no text for a reader."""
    if role not in ROLES:
        raise LeftOut(f"a message of the role {role[:40]!r} is not imported")
    if recipient not in EVERYBODY:
        raise LeftOut(f"a message to the tool {recipient[:40]!r} is not imported")
    if content_type not in CONTENT_TYPES:
        raise LeftOut(f"content of the type {content_type[:40]!r} is not imported")


def _split(parts: object) -> tuple[list[str], list[tuple[int, str]]]:
    """Return the texts of a message, and (index, name) of the other parts. Raises LeftOut."""
    if not isinstance(parts, list):
        raise LeftOut("`parts` is not a list")
    texts, others = [], []
    for index, part in enumerate(parts):
        kind = part.get("content_type") if isinstance(part, dict) else ""
        if isinstance(part, str):
            texts.append(part)
        elif kind == "audio_transcription" and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif kind == "image_asset_pointer":
            others.append((index, "an image"))
        else:
            others.append((index, f"a part of the type {str(kind)[:40]!r}"))
    return texts, others


def _shown(ident: str) -> str:
    return ident[:80].encode(errors="backslashreplace").decode()
