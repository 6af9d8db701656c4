"""What was said on a swarm, as the log of a page shows it."""

from collections.abc import Iterable
from typing import NamedTuple

from bus.codec import decode
from bus.errors import MalformedMessage
from bus.log import Said

MOST_CHARACTERS = 400  # of one message; the log as JSON has all of it


class Shown(NamedTuple):
    """One message."""

    said_at: int  # Unix ms
    sender: str
    text: str
    cut: int  # how many characters are not shown


def shown(said: Iterable[Said]) -> list[Shown]:
    """Messages in the order in which they come."""
    return [_shown(one) for one in said]


def _shown(one: Said) -> Shown:
    try:
        message = decode(one.data, len(one.data))
        sender, text = message.sender, message.text
    except MalformedMessage:
        sender, text = "", one.data.decode(errors="replace")
    return Shown(one.place[0], sender, text[:MOST_CHARACTERS], max(0, len(text) - MOST_CHARACTERS))
