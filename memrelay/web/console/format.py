"""Formatting of numbers, times, texts, and log messages for pages."""

import json
import re
import time
from typing import Any, NamedTuple
from unicodedata import combining, east_asian_width

from markupsafe import Markup, escape

from memrelay.bus.streams.log import LogEntry
from memrelay.web.trace.messages import parse_entry_id, read_message

CODE = re.compile(r"`([^`]+)`")
# Characters per cell: a letter and its combining accents.
MAX_CHARACTERS_PER_CELL = 4
# Characters shown of one message. The log as JSON has the whole message.
MAX_MESSAGE_CHARACTERS = 400
# Longer JSON is shown as it is: in a list, and on a page of one text.
MAX_SUMMARY_CHARACTERS, MAX_JSON_CHARACTERS = 8192, 65_536
MAX_SUMMARY_FIELDS = 12


def format_count(value: int) -> str:
    """Return for example 12,345."""
    return f"{value:,}"


def format_rate(per_s: float) -> str:
    """Return messages per second, with one decimal below 10."""
    return f"{per_s:.1f}/s" if 0 < per_s < 10 else f"{per_s:,.0f}/s"


def format_bytes(size: int) -> str:
    """Return a size in the largest unit of which there is at least one, for example 1.5 MiB."""
    for unit, length in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= length:
            return f"{size / length:.1f} {unit}"
    return f"{size} B"


def format_age(seconds: float) -> str:
    """Return a duration in the largest unit of which there are at least two."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds else "0 s"


def format_time(unix_ms: int) -> str:
    """Return the server's time of day with its zone, and with the date unless it is today."""
    then, now = time.localtime(unix_ms / 1000), time.localtime()
    return time.strftime("%H:%M:%S %Z" if then[:3] == now[:3] else "%Y-%m-%d %H:%M:%S %Z", then)


def format_pause(reason: str) -> str:
    """Return why a pipeline pauses and, after the first semicolon of the reason, how to fix it."""
    problem, _, remedy = reason.removesuffix("; it is retried").partition("; ")
    return f"Paused: {problem}. Fix: {remedy}." if remedy else f"Paused: {problem}."


def clip(text: str, cells: int) -> str:
    """Return a text on one line, shortened to a width in Latin letters with an ellipsis."""
    most = MAX_CHARACTERS_PER_CELL * cells
    line = " ".join(text[: 2 * most].split())
    # The beginning of a long text is enough, unless it is mostly whitespace.
    if len(line) <= most < len(text):
        line = " ".join(text.split())
    end = _count_fitting(line, cells)
    return line if end == len(line) else line[: _count_fitting(line, cells - 1)] + "…"


def capitalize_first(text: str) -> str:
    """Return a text that begins with a capital letter; the rest stays as it is."""
    return f"{text[:1].upper()}{text[1:]}"


def format_code(text: str) -> Markup:
    """Return a trusted text with the parts between backticks as code elements."""
    return Markup(CODE.sub(r"<code>\1</code>", str(escape(text))))


class JsonText(NamedTuple):
    """A text that is a JSON object or array.

    `fields` are the names and values of an object, with nested values indented as JSON. An array
    has none. `indented` is the whole text.
    """

    fields: list[tuple[str, str]]
    indented: str


def read_json(text: str) -> JsonText | None:
    """Return a text that is a JSON object or array in readable form, None for other texts."""
    value = _parse_json(text, MAX_JSON_CHARACTERS)
    if value is None:
        return None
    fields = value.items() if isinstance(value, dict) else ()
    return JsonText([(name, _show_value(one)) for name, one in fields], _indent(value))


def summarize(text: str) -> str:
    """Return a text for a list: JSON as its fields, such as `order: 7 · paid: true`."""
    value = _parse_json(text, MAX_SUMMARY_CHARACTERS)
    if value is None:
        return text
    if isinstance(value, list):
        first = f": {_shorten(value[0])}" if value else ""
        return f"{_count_items(value)}{first}"
    shown = [f"{name}: {_shorten(value[name])}" for name in list(value)[:MAX_SUMMARY_FIELDS]]
    hidden = len(value) - len(shown)
    return " · ".join([*shown, f"{hidden} more"] if hidden else shown) or "an empty object"


def _parse_json(text: str, max_characters: int) -> Any:
    """Return the object or array of a text, None if it is none or too long to be formatted."""
    if len(text) > max_characters or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(text)
        _indent(value).encode()
    except (ValueError, RecursionError):  # half of a surrogate pair cannot be encoded
        return None
    return value


def _indent(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _show_value(value: Any) -> str:
    return value if isinstance(value, str) else _indent(value)


def _count_items(value: list[Any]) -> str:
    return "1 item" if len(value) == 1 else f"{len(value)} items"


def _shorten(value: Any) -> str:
    """Return a value of JSON on one line; objects and arrays by what they have."""
    if isinstance(value, list):
        return _count_items(value)
    if isinstance(value, dict):
        text = value.get("content") or value.get("text") or value.get("name")
        fields = "1 field" if len(value) == 1 else f"{len(value)} fields"
        return text if isinstance(text, str) else fields
    return _show_value(value)


def _count_fitting(line: str, cells: int) -> int:
    """Return how many characters fit. Wide letters take two cells, combining accents none."""
    if line.isascii():
        return min(len(line), cells)
    width, max_characters = 0, MAX_CHARACTERS_PER_CELL * cells
    for index, letter in enumerate(line[:max_characters]):
        if not combining(letter):
            width += 2 if east_asian_width(letter) in "WF" else 1
        if width > cells:
            return index
    return min(len(line), max_characters)


class LogRow(NamedTuple):
    """A message of a log. `hidden` is the number of characters that are not shown.

    `entry` is the message whose trace has it, "" if that belongs to another pipeline. A message
    that failed has its `reason`, and the id of its dead letter in `letter`. Of JSON, `text` is a
    summary, and `json` the beginning of the indented text.
    """

    published_at_ms: int
    sender: str
    text: str
    hidden: int
    entry: str = ""
    reason: str = ""
    letter: str = ""
    json: str = ""


def to_log_row(entry: LogEntry, uid: str) -> LogRow:
    """Return a message of a log. A malformed message is shown as it is."""
    sender, text = read_message(entry.data)
    found, indented = read_json(text), ""
    if found:
        text, indented = summarize(text), found.indented
    hidden = max(0, len(indented or text) - MAX_MESSAGE_CHARACTERS)
    owner, _, _ = entry.mid.rpartition("/")
    input_id = parse_entry_id(entry.mid) if owner in ("", uid) else ""
    shown = text[:MAX_MESSAGE_CHARACTERS]
    indented = indented[:MAX_MESSAGE_CHARACTERS]
    return LogRow(entry.place[0], sender, shown, hidden, input_id, json=indented)


class Clipped(NamedTuple):
    """The beginning of a text. `hidden` is the number of characters that are left out."""

    text: str
    hidden: int


def clip_bytes(text: str, max_bytes: int) -> Clipped:
    """Return as much of a text as has that many bytes in HTML."""
    shown = text[:max_bytes]
    while (size := len(str(escape(shown)).encode())) > max_bytes:
        shown = shown[: len(shown) * max_bytes // size]
    return Clipped(shown, len(text) - len(shown))
