"""Edit JSON as text: insert and remove elements, and keep comments and formatting of the rest."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memrelay.capture.tools.tool import SettingsFault

MAX_DEPTH = 100
SPACE = re.compile(r"[ \t\r\n]*")
DECODER = json.JSONDecoder()
REST_OF_LINE = re.compile(r"[ \t]*(?://[^\r\n]*)?")
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its place in the text. An object or array has members."""

    start: int
    end: int
    value: Any
    members: tuple["Member", ...] = ()

    def find(self, key: str) -> "Member | None":
        """Return the member of an object; the last one if the key occurs twice."""
        return next((one for one in reversed(self.members) if one.key == key), None)


@dataclass(frozen=True, slots=True)
class Member:
    """An element of an object or array. `start` is that of the key, "" in an array."""

    key: str
    start: int
    node: Node


def parse(text: str, *, lenient: bool = False) -> Node:
    """Return the value of a text. `lenient` allows comments and trailing commas.

    Raises SettingsFault: with the line of the first fault.
    """
    return _Parser(text, lenient).parse()


def insert(text: str, container: Node, value: Any, key: str = "") -> str:
    """Return the text with a new last element of an object (with its key) or array."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _find_unit(text)
    outer = _indentation(text, container.start)
    if not container.members:
        head = text[: container.end - 1].rstrip()
        element = _render(value, key, newline, outer + unit, unit)
        close = newline + outer + text[container.end - 1]
        return head + newline + outer + unit + element + close + text[container.end :]
    last = container.members[-1].node
    first = container.members[0].start
    after_comma = _skip_comma(text, last.end)
    if "\n" not in text[container.start : first]:
        compact = json.dumps(value, ensure_ascii=False)
        element = f"{json.dumps(key)}: {compact}" if key else compact
        comma = "" if after_comma else ","
        at = after_comma or last.end
        return f"{text[:at]}{comma} {element}{text[at:]}"
    indent = _indentation(text, first)
    element = _render(value, key, newline, indent, unit)
    at = REST_OF_LINE.match(text, after_comma or last.end).end()  # type: ignore[union-attr]
    head = text[:at] if after_comma else f"{text[: last.end]},{text[last.end : at]}"
    return head + newline + indent + element + text[at:]


def remove(text: str, container: Node, index: int) -> str:
    """Return the text without one element of an object or array."""
    member = container.members[index]
    lead = len(text[: member.start].rstrip(" \t\r\n"))
    comma = _skip_comma(text, member.node.end)
    if comma:
        return text[:lead] + text[comma:]
    if index:
        before = container.members[index - 1].node.end
        comma = _skip_comma(text, before)
        return text[: comma - 1] + text[comma:lead] + text[member.node.end :]
    inner = text[container.start + 1 : lead] + text[member.node.end : container.end - 1]
    kept = inner if inner.strip() else ""
    return text[: container.start + 1] + kept + text[container.end - 1 :]


def _render(value: Any, key: str, newline: str, indent: str, unit: str) -> str:
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    name = f"{json.dumps(key)}: " if key else ""
    return name + (newline + indent).join(lines)


def _find_unit(text: str) -> str:
    """Return the indentation of the first indented line, two spaces if there is none."""
    found = re.search(r"^[ \t]+(?=\S)", text, re.MULTILINE)
    return found[0] if found else "  "


def _indentation(text: str, at: int) -> str:
    """Return the white space with which the line of a position begins."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _skip_comma(text: str, at: int) -> int:
    """Return the position after the comma that follows a value, 0 if none follows."""
    at = skip_space(text, at)
    return at + 1 if text.startswith(",", at) else 0


def skip_space(text: str, at: int) -> int:
    """Return the position after white space and comments.

    Raises SettingsFault: a comment does not end.
    """
    while True:
        at = SPACE.match(text, at).end()  # type: ignore[union-attr]
        if text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                raise SettingsFault("a comment does not end; add */", text.count("\n", 0, at) + 1)
            at = end + 2
        else:
            return at


class _Parser:
    """Reads a text from left to right."""

    def __init__(self, text: str, lenient: bool) -> None:
        self._text, self._lenient = text, lenient
        self._at = len(BYTE_ORDER_MARK) if text.startswith(BYTE_ORDER_MARK) else 0

    def parse(self) -> Node:
        node = self._value(0)
        self._skip()
        if self._at < len(self._text):
            raise self._fault("text follows the end of the JSON; remove it")
        return node

    def _fault(self, message: str) -> SettingsFault:
        return SettingsFault(message, self._text.count("\n", 0, self._at) + 1)

    def _skip(self) -> None:
        at = skip_space(self._text, self._at)
        if not self._lenient and "/" in self._text[self._at : at]:
            self._at = self._text.index("/", self._at)
            raise self._fault("a comment, which this file must not have; remove it")
        self._at = at

    def _value(self, depth: int) -> Node:
        self._skip()
        if depth > MAX_DEPTH:
            raise self._fault(f"more than {MAX_DEPTH} values inside each other; flatten them")
        start = self._at
        opening = self._text[start : start + 1]
        if opening in ("{", "["):
            members = self._members(opening, depth)
            value = _to_value(opening, members)
            return Node(start, self._at, value, members)
        value = self._scalar("a value")
        return Node(start, self._at, value)

    def _scalar(self, expected: str) -> Any:
        """Return the text, number or word at the position, and go on after it."""
        try:
            value, self._at = DECODER.raw_decode(self._text, self._at)
        except ValueError:
            seen = self._text[self._at : self._at + 20] or "the end of the file"
            raise self._fault(f"expected {expected}, not {seen!r}; correct the JSON") from None
        return value

    def _members(self, opening: str, depth: int) -> tuple[Member, ...]:
        close = "}" if opening == "{" else "]"
        members: list[Member] = []
        self._at += 1
        while True:
            self._skip()
            if self._text.startswith(close, self._at) and (not members or self._lenient):
                break
            members.append(self._member(opening, depth))
            self._skip()
            if not self._text.startswith(",", self._at):
                self._expect(close)
                return tuple(members)
            self._at += 1
        self._at += 1
        return tuple(members)

    def _member(self, opening: str, depth: int) -> Member:
        start, key = self._at, ""
        if opening == "{":
            if not self._text.startswith('"', start):
                raise self._fault(
                    f"expected a name in double quotes, not {self._text[start : start + 20]!r}; "
                    "correct the JSON"
                )
            key = self._scalar("a name in double quotes")
            self._skip()
            self._expect(":")
        return Member(key, start, self._value(depth + 1))

    def _expect(self, sign: str) -> None:
        if not self._text.startswith(sign, self._at):
            seen = self._text[self._at : self._at + 20] or "the end of the file"
            raise self._fault(f"expected {sign!r} or a comma, not {seen!r}; correct the JSON")
        self._at += 1


def _to_value(opening: str, members: Sequence[Member]) -> Any:
    if opening == "{":
        return {one.key: one.node.value for one in members}
    return [one.node.value for one in members]
