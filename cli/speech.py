"""What is said from the command line: as an envelope that the bus takes, and on to where its end is
awaited."""

import time
from typing import Any

from bus.codec import encode
from bus.entry import NewEntry
from bus.errors import MalformedMessage, NoAnswer
from bus.message import say
from bus.request import Requester


def envelope_of(text: str, user: str, most_bytes: int) -> bytes:
    """The envelope of a text that `user` says now. Raises MalformedMessage."""
    message = say(user, "cli", text, username=user, now_ms=time.time_ns() // 1_000_000)
    try:
        data = encode(message)
    except UnicodeEncodeError as error:
        raise MalformedMessage("what is said must be text in UTF-8") from error
    if len(data) > most_bytes:
        raise MalformedMessage(
            f"the message has {len(data)} bytes; bus.max_message_bytes allows {most_bytes}: say it in parts"
        )
    return data


async def ask(requester: Requester, entry: NewEntry, wait_s: float) -> dict[str, Any]:
    """The report of what it leads to, as `Requester.say`; NoAnswer says what to do next."""
    try:
        return await requester.say(entry, wait_s)
    except NoAnswer as error:
        more = (
            f": {error.paused}"
            if error.paused
            else " `memrelay status` tells, `memrelay worker` starts one"
        )
        raise NoAnswer(f"{error}{more}", error.ident, error.paused) from error
