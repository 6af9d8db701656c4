"""ChatGPT: the conversations of an export, as a zip file or its `conversations.json`.

The entries of a zip file are read by name, within limits. Nothing is extracted to a path.
"""

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import IO, Any

from memrelay.memory.transfer.importers.archives import is_container, open_container
from memrelay.memory.transfer.importers.json_items import begins_with, has_keys, iterate
from memrelay.memory.transfer.importers.source import (
    Fault,
    LeftOut,
    RefusedFile,
    SourceInput,
    SourceItem,
    Turn,
    fields_of,
    read_text,
    read_time,
    source,
    try_time,
    without_empty,
)

NAME = "chatgpt"
# A large export has several files: conversations-000.json and so on.
CONVERSATIONS = re.compile(r"conversations(-\d+)?\.json")
ROLES = ("user", "assistant")
# Contents that a system adds in the name of the user, such as custom instructions.
HIDDEN = ("is_visually_hidden_from_conversation", "is_user_system_message")
CONTENT_TYPES = ("text", "multimodal_text")
# The recipient of messages to the user. Others are tools.
EVERYBODY = ("", "all")
OTHER_BRANCH = "it is on another branch of the conversation; --all-branches imports it"


class Tree:
    """Nodes with a parent, children and perhaps a message."""

    def __init__(self, mapping: object) -> None:
        """Check the tree. Raises LeftOut: it is malformed or has a cycle."""
        if not isinstance(mapping, dict):
            raise LeftOut("`mapping` is not a JSON object")
        self._mapping: dict[str, dict[str, Any]] = mapping
        self._children: dict[str, dict[str, None]] = {node: {} for node in mapping}
        for node, fields in mapping.items():
            listed = _listed_children(node, fields)
            # A dict keeps the order of the list.
            self._children[node] |= {one: None for one in listed if one in mapping}
        for node in mapping:
            parent = self.parent(node)
            if parent is not None and parent in mapping:
                self._children[parent].setdefault(node)
        try:
            TopologicalSorter(self._children).prepare()
        except CycleError as error:
            raise LeftOut(
                f"`mapping` has a cycle through the node {str(error.args[1][0])[:80]!r}"
            ) from error

    def message(self, node: str) -> object:
        return self._mapping[node].get("message")

    def parent(self, node: str) -> str | None:
        parent: str | None = self._mapping[node].get("parent")
        return parent

    def path_to(self, node: object) -> dict[str, int]:
        """Return the depth of each node of the branch that ends in a node.

        Without this node it is the branch that follows the last child of each node.
        """
        if not isinstance(node, str) or node not in self._mapping:
            node = self._last_leaf()
        path: list[str] = []
        step: str | None = node
        while step is not None and step in self._mapping:
            path.append(step)
            step = self.parent(step)
        return {step: depth for depth, step in enumerate(reversed(path))}

    def _last_leaf(self) -> str | None:
        """Return the last leaf in depth-first order that has a message, None without messages."""
        found = [node for node in self.nodes() if not self._children[node] and self.message(node)]
        return found[-1] if found else next(iter(reversed(self._mapping)), None)

    def nodes(self) -> Iterator[str]:
        """Yield all nodes in depth-first order."""
        below = {child for children in self._children.values() for child in children}
        open_nodes = [node for node in reversed(self._mapping) if node not in below]
        seen = set()
        while open_nodes:
            node = open_nodes.pop()
            if node not in seen:
                seen.add(node)
                yield node
                open_nodes.extend(reversed(self._children[node]))


def _listed_children(node: str, fields: object) -> list[str]:
    """Return the children that a node lists. Raises LeftOut: the node is malformed."""
    if not isinstance(fields, dict):
        raise LeftOut(f"the node {node[:80]!r} of `mapping` is not a JSON object")
    children, parent = fields.get("children") or [], fields.get("parent")
    if not isinstance(children, list) or not all(isinstance(one, str) for one in children):
        raise LeftOut(f"`children` of the node {node[:80]!r} is not a list of texts")
    if parent is not None and not isinstance(parent, str):
        raise LeftOut(f"`parent` of the node {node[:80]!r} is not a text")
    return children


def detect(path: Path) -> bool:
    return has_conversations(path, "mapping")


def has_conversations(path: Path, key: str) -> bool:
    """Return whether a file, a zip file or a folder has conversations with this key."""
    if not is_container(path):
        return begins_with(path, key)
    with open_container(path) as container:
        for name in container.names(CONVERSATIONS)[:1]:
            with container.open(name) as file:
                return has_keys(file, key)
    return False


@source(NAME, detect, has_branches=True)
def read(source_input: SourceInput) -> Iterator[SourceItem]:
    """Yield the messages of user and assistant as turns."""
    for file, name in read_documents(source_input.file, "ChatGPT"):
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
            yield from chat.messages(source_input.all_branches)


def read_documents(path: Path, system: str) -> Iterator[tuple[IO[bytes], str]]:
    """Yield the open files of conversations and their names. Raises RefusedFile and OSError."""
    if not is_container(path):
        with path.open("rb") as file:
            yield file, path.name
        return
    with open_container(path) as container:
        names = container.names(CONVERSATIONS)
        if not names:
            raise RefusedFile(
                f"{path.name} has no conversations.json; choose an export of {system}"
            )
        for name in names:
            with container.open(name) as file:
                yield file, name


class _Chat:
    def __init__(self, fields: dict[str, Any], place: str) -> None:
        """Raises LeftOut: the conversation has no id or no valid tree."""
        self._fields = fields
        self._place = place
        self._thread = read_text(fields, "conversation_id") or read_text(fields, "id")
        if not self._thread:
            raise LeftOut("the conversation has no id")
        self._tree = Tree(fields.get("mapping"))
        self._times = self._read_times()

    def _read_times(self) -> dict[str, int | None]:
        """Return the time of each node: an answer is never earlier than its question."""
        own = {
            node: try_time(self._tree.message(node), "create_time") for node in self._tree.nodes()
        }
        began = next((time for time in own.values() if time is not None), None)
        if began is None:
            began = try_time(self._fields, "create_time")
        times: dict[str, int | None] = {}
        for node, time in own.items():
            earlier = times.get(self._tree.parent(node) or "")
            known = [one for one in (time, earlier) if one is not None]
            times[node] = max(known, default=began)
        return times

    def messages(self, all_branches: bool) -> Iterator[SourceItem]:
        """Yield the messages in depth-first order, with those left out."""
        path = {} if all_branches else self._tree.path_to(self._fields.get("current_node"))
        if all(self._tree.message(node) is None for node in self._tree.nodes()):
            yield Fault(self._place, "the conversation has no messages")
        for number, node in enumerate(self._tree.nodes()):
            message = self._tree.message(node)
            if message is None:
                continue
            shown = node[:80].encode(errors="backslashreplace").decode()
            place = f"{self._place}, message {shown}"
            if not all_branches and node not in path:
                yield Fault(place, OTHER_BRANCH)
                continue
            try:
                yield from self._turn(node, place, number if all_branches else path[node])
            except LeftOut as error:
                yield Fault(place, str(error))

    def _turn(self, node: str, place: str, seq: int) -> Iterator[SourceItem]:
        """Yield a message as a turn, after its parts that are no text. Raises LeftOut."""
        message = fields_of(self._tree.message(node))
        role = read_text(fields_of(message.get("author")), "role")
        content = fields_of(message.get("content"))
        _check_kind(role, read_text(content, "content_type"), read_text(message, "recipient"))
        read_time(message.get("create_time"))
        metadata = message.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        if any(metadata.get(flag) for flag in HIDDEN):
            raise LeftOut("a hidden message is not imported: it is not what the user wrote")
        model = metadata.get("model_slug")
        if role == "assistant":
            model = model or self._fields.get("default_model_slug")
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
            created_at=self._times[node],
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
