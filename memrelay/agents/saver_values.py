"""Checkpoints as the operations store them: values in base64, and parts that the base has."""

import secrets
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from langgraph.checkpoint.base import Checkpoint
from langgraph.checkpoint.serde.base import SerializerProtocol

from memrelay.agents.calls import CallSteps
from memrelay.memory.models.agent_memory.checkpoint_table import pack, unpack

# Lists are split into items of this type.
MSGPACK = "msgpack"
# The average bytes from which each item of a list is a part.
ITEM_BYTES = 64
# A call with more base64 characters is split. bus.max_message_bytes is 1 MiB by default.
CALL_CHARACTERS = 512 << 10
# Threads and bytes of parts that a saver remembers.
MAX_THREADS, MAX_KNOWN_BYTES = 256, 32 << 20

Steps = CallSteps[Any]
ThreadKey = tuple[str, str]


class Layout(NamedTuple):
    """The channels of a checkpoint and their serialized values, in order."""

    channels: list[dict[str, Any]]
    parts: list[bytes]


class Known(NamedTuple):
    """The parts of a stored checkpoint, which `mark` identifies."""

    mark: str
    parts: list[bytes]
    bytes: int


class KnownParts:
    """Remembers the parts of the last checkpoint of each thread and namespace, for any Python
    thread.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[ThreadKey, Known] = OrderedDict()
        self._bytes = 0

    def get(self, thread: ThreadKey) -> Known | None:
        """Return the parts of the last checkpoint, None if they are not known."""
        return self._known.get(thread)

    def note(self, thread: ThreadKey, mark: str, parts: Sequence[bytes]) -> None:
        """Remember the parts of a checkpoint, and forget the least recently used ones."""
        new = Known(mark, [*parts], sum(map(len, parts)))
        with self._lock:
            if (before := self._known.pop(thread, None)) is not None:
                self._bytes -= before.bytes
            self._known[thread] = new
            self._bytes += new.bytes
            while len(self._known) > MAX_THREADS or (
                self._bytes > MAX_KNOWN_BYTES and len(self._known) > 1
            ):
                self._bytes -= self._known.popitem(last=False)[1].bytes


def make_layout(values: Mapping[str, Any], serde: SerializerProtocol) -> Layout:
    """Serialize the values of channels. Each item of a list is a part, which checkpoints share."""
    channels: list[dict[str, Any]] = []
    parts: list[bytes] = []
    for name, value in values.items():
        items = _split_items(value, serde)
        if items is None:
            type_, data = serde.dumps_typed(value)
            parts.append(data)
            channels.append({"name": name, "type": type_})
        else:
            parts += items
            channels.append({"name": name, "type": MSGPACK, "items": len(items)})
    return Layout(channels, parts)


def restore_values(
    channels: Sequence[Mapping[str, Any]], parts: Sequence[bytes], serde: SerializerProtocol
) -> dict[str, Any]:
    """Return the values of channels."""
    values: dict[str, Any] = {}
    at = 0
    for channel in channels:
        type_, items = channel["type"], channel["items"]
        count = 1 if items is None else items
        loaded = [serde.loads_typed((type_, part)) for part in parts[at : at + count]]
        values[channel["name"]] = loaded[0] if items is None else loaded
        at += count
    return values


def _split_items(value: Any, serde: SerializerProtocol) -> list[bytes] | None:
    """Return the serialized items of a list, None if it is one part."""
    if type(value) is not list or not value:
        return None
    parts = []
    for item in value:
        type_, data = serde.dumps_typed(item)
        if type_ != MSGPACK:
            return None
        parts.append(data)
    return parts if sum(map(len, parts)) >= ITEM_BYTES * len(parts) else None


def put_steps(
    arguments: dict[str, Any], skeleton: bytes, parts: Sequence[bytes], known: Known | None
) -> Steps:
    """Store a checkpoint, whose parts are sent unless the base has them. Return its mark."""
    first = pack(skeleton)
    runs, new = _match(parts, [] if known is None else known.parts)
    base = "" if known is None else known.mark
    arguments |= {"size": len(first), "parts": runs, "base": base}
    output = yield from send_steps("checkpoints.put", arguments, b"".join([first, *new]))
    if not output["stored"]:
        runs, new = _match(parts, [])
        arguments |= {"parts": runs, "base": ""}
        output = yield from send_steps("checkpoints.put", arguments, b"".join([first, *new]))
    return _required(output)["mark"]


def _match(parts: Sequence[bytes], known: Sequence[bytes]) -> tuple[list[list[int]], list[bytes]]:
    """Return where each part is: `[first, count]` in the base, or `[bytes]` for a new part."""
    runs: list[list[int]] = []
    new: list[bytes] = []
    indexes: Mapping[bytes, int] = {}
    if known and parts[: len(known)] == known:  # as in a conversation that goes on
        runs.append([0, len(known)])
        parts = parts[len(known) :]
    else:
        indexes = {part: index for index, part in enumerate(known)}
    for part in parts:
        index = indexes.get(part)
        if index is None:
            new.append(pack(part))
            runs.append([len(new[-1])])
        elif runs and len(runs[-1]) == 2 and sum(runs[-1]) == index:
            runs[-1][1] += 1
        else:
            runs.append([index, 1])
    return runs, new


def send_steps(name: str, arguments: dict[str, Any], data: bytes) -> Steps:
    """Call an operation with bytes, in several calls if they are long. Return its output."""
    text = b64encode(data).decode()
    if len(text) <= CALL_CHARACTERS:
        return (yield name, arguments | {"data": text})
    names = ("id", "thread", "agent", "ns", "task")
    address = {name: arguments[name] for name in names if name in arguments}
    of, at = secrets.token_hex(16), 0
    while len(text) - at > CALL_CHARACTERS:
        piece = {"piece": text[at : at + CALL_CHARACTERS], "at": at, "of": of}
        output = yield name, address | piece
        if not output["stored"]:
            return output
        at += CALL_CHARACTERS
    return (yield name, arguments | {"data": text[at:], "at": at, "of": of})


def write_steps(arguments: dict[str, Any], values: Sequence[bytes]) -> Steps:
    """Store writes with these serialized values."""
    stored = [pack(value) for value in values]
    for one, value in zip(arguments["writes"], stored, strict=True):
        one["size"] = len(value)
    output = yield from send_steps("checkpoints.write", arguments, b"".join(stored))
    if not output["stored"]:
        output = yield from send_steps("checkpoints.write", arguments, b"".join(stored))
    _required(output)


def get_steps(arguments: dict[str, Any], known: Known | None) -> Steps:
    """Return the output of checkpoints.get, with the checkpoint in `checkpoint`, its parts in
    `parts` and the values of its writes in `values`. None if the checkpoint does not exist.
    """
    arguments = arguments | {"known": "" if known is None else known.mark}
    while True:
        output = yield "checkpoints.get", arguments
        if not output["found"]:
            return None
        data, first = b64decode(output["data"]), output
        at = {"id": output["id"]}
        while len(data) < first["total"] and _is_same(first, output):
            output = yield "checkpoints.get", arguments | at | {"at": len(data)}
            data += b64decode(output["data"])
        if _is_same(first, output):
            return _with_values(first, data, known)


def _with_values(output: dict[str, Any], data: bytes, known: Known | None) -> dict[str, Any]:
    sizes = [*output["sizes"], *(one["size"] for one in output["writes"])]
    values = _cut(data, sizes)
    count = len(output["sizes"])
    is_known = known is not None and known.mark == output["mark"]
    parts = known.parts if known is not None and is_known else values[1:count]
    return output | {"checkpoint": values[0], "parts": parts, "values": values[count:]}


def _is_same(first: dict[str, Any], output: dict[str, Any]) -> bool:
    """Return whether both answers are about the same data."""
    return all(first[key] == output[key] for key in ("mark", "sizes", "writes"))


def _cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    values, at = [], 0
    for size in sizes:
        end = at + size
        # Most values are not compressed.
        values.append(data[at + 1 : end] if size and not data[at] else unpack(data[at:end]))
        at = end
    return values


def _required(output: dict[str, Any]) -> dict[str, Any]:
    if not output["stored"]:
        raise ConnectionError("the store lost pieces of a checkpoint twice; try again")
    return output


def without_values(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return a checkpoint without the values of its channels."""
    return {name: value for name, value in checkpoint.items() if name != "channel_values"}
