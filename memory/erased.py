"""What is to be erased, as messages hold it: which of them quote a record that is gone.

A message does where its JSON has, in any string, the guid of an erased record, a text that was
asked for, or the whole text of
one of its states. A text shorter than SHORT characters must be all that a string says, but for a
command before it: "ok" stands
in many a message that has nothing to do with the record.
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec
import orjson

SHORT = 12
GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
COMMAND = re.compile(r"/\S+\s+")
MOST_DEEP = 32  # JSON within JSON


class Erased:
    """Looks into messages; the cost is theirs, however much was erased."""

    def __init__(self, wanted: Iterable[tuple[str, str]]) -> None:
        """(sort, text): sort is `guid`, `text` for what was asked for, or `content` for a state's
        whole text."""
        self._guids, self._other_guids, self._asked, self._short = (
            set[str](),
            list[str](),
            list[str](),
            set[str](),
        )
        self._long: dict[str, list[str]] = {}  # by their beginnings
        for sort, text in wanted:
            if sort == "guid":
                self._guids.add(text) if GUID.fullmatch(text) else self._other_guids.append(text)
            elif sort == "text":
                self._asked.append(text)
            elif len(text := text.strip()) >= SHORT:
                self._long.setdefault(text[:SHORT], []).append(text)
            elif text:
                self._short.add(text)

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._guids or self._other_guids or self._asked or self._short or self._long)

    def in_json(self, data: bytes) -> bool:
        """Whether an envelope, or another text, holds some of it."""
        return self._in_text(data.decode(errors="replace"), 0)

    def in_msgpack(self, data: bytes) -> bool:
        """Whether what an inbox keeps holds some of it."""
        try:
            return self._in(msgspec.msgpack.decode(data), 0)
        except (msgspec.DecodeError, RecursionError):
            return self.in_json(data)

    def _in(self, value: Any, deep: int) -> bool:
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if isinstance(value, str):
            return self._in_text(value, deep)
        if isinstance(value, dict):
            value = [*value, *value.values()]
        return isinstance(value, list) and any(self._in(one, deep + 1) for one in value)

    def _in_text(self, text: str, deep: int) -> bool:
        if text[:1] in ("{", "[", '"') and deep < MOST_DEEP:
            try:
                parsed = orjson.loads(text)
            except orjson.JSONDecodeError:
                parsed = ""
            if self._in(parsed, deep + 1):
                return True
        return self._quoted(text)

    def _quoted(self, text: str) -> bool:
        if any(guid in self._guids for guid in GUID.findall(text)):
            return True
        if any(one in text for one in (*self._asked, *self._other_guids)):
            return True
        said = text.strip()
        if self._short and (
            said in self._short or COMMAND.sub("", said, count=1).strip() in self._short
        ):
            return True
        known = self._long
        return bool(known) and any(
            text.startswith(one, at)
            for at in range(len(text) - SHORT + 1)
            for one in known.get(text[at : at + SHORT], ())
        )
