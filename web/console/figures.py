"""Numbers, times and texts as a person reads them."""

import re
import time
from collections.abc import Iterable
from typing import NamedTuple
from unicodedata import combining, east_asian_width

from markupsafe import Markup, escape

from memrelay.bus.codec import decode
from memrelay.bus.errors import MalformedMessage
from memrelay.bus.streams.log import LogEntry

BETWEEN_BACKTICKS = re.compile(r"`([^`]+)`")
MOST_LETTERS = 4  # in a cell: one, with its accents


def count(value: int) -> str:
    """12,345."""
    return f"{value:,}"


def rate(per_s: float) -> str:
    """Messages a second: with a decimal where it is small."""
    return f"{per_s:.1f}/s" if 0 < per_s < 10 else f"{per_s:,.0f}/s"


def age(seconds: float) -> str:
    """How long something has waited: in the largest unit of which there are two."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds else "0 s"


def moment(unix_ms: int) -> str:
    """The time of day here; with the date where it is another day."""
    then, now = time.localtime(unix_ms / 1000), time.localtime()
    return time.strftime("%H:%M:%S" if then[:3] == now[:3] else "%Y-%m-%d %H:%M:%S", then)


def clip(text: str, cells: int) -> str:
    """The beginning of a text where it is wider than so many Latin letters, with an ellipsis; on
    one line."""
    line = " ".join(text.split())
    whole = _fitting(line, cells)
    return line if whole == len(line) else line[: _fitting(line, cells - 1)] + "…"


def code(text: str) -> Markup:
    """A text of this program's own for a page: what stands between backticks there as code."""
    return Markup(BETWEEN_BACKTICKS.sub(r"<code>\1</code>", str(escape(text))))


def _fitting(line: str, cells: int) -> int:
    """How many letters fit: wide ones take two cells, and accents none, as long as they are not
    piled up."""
    width = 0
    for at, letter in enumerate(line[: MOST_LETTERS * cells]):
        width += 0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1
        if width > cells:
            return at
    return min(len(line), MOST_LETTERS * cells)


# What was said on a swarm, as the log of a page shows it.

MOST_CHARACTERS = 400  # of one message; the log as JSON has all of it


class Shown(NamedTuple):
    """One message."""

    said_at: int  # Unix ms
    sender: str
    text: str
    cut: int  # how many characters are not shown


def shown(said: Iterable[LogEntry]) -> list[Shown]:
    """Messages in the order in which they come."""
    return [_shown(one) for one in said]


def _shown(one: LogEntry) -> Shown:
    try:
        message = decode(one.data, len(one.data))
        sender, text = message.sender, message.text
    except MalformedMessage:
        sender, text = "", one.data.decode(errors="replace")
    return Shown(one.place[0], sender, text[:MOST_CHARACTERS], max(0, len(text) - MOST_CHARACTERS))
