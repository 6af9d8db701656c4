"""What is said at the prompt or by a script, line by line, and what is shown of its results."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any

from bus.entry import NewEntry
from bus.errors import BusError, MalformedMessage, NoAnswer
from bus.request import Requester
from cli.chat.overheard import Overheard
from cli.chat.seen import Seen
from cli.composition import note
from cli.report import print_readably, print_results, values_of
from cli.speech import ask, envelope_of


@dataclass(frozen=True, slots=True)
class Manner:
    """How things are said and shown."""

    uid: str
    swarm: str
    user: str
    wait_s: float
    most_bytes: int  # of an envelope
    as_json: bool


class Conversation:
    """Says one thing after the other and shows what comes of each."""

    def __init__(
        self, requester: Requester, manner: Manner, seen: Seen, overheard: Overheard
    ) -> None:
        """`seen` learns which records are shown, `overheard` what is our own."""
        self._requester, self._manner, self._seen, self._overheard = (
            requester,
            manner,
            seen,
            overheard,
        )

    async def say(self, text: str) -> bool:
        """Says a text, shows the results, and tells whether it went through; what went wrong is
        told on stderr."""
        manner, ident = self._manner, ""
        self._overheard.wait()
        try:
            entry = NewEntry(
                manner.uid, envelope_of(text, manner.user, manner.most_bytes), manner.swarm
            )
            report = await ask(self._requester, entry, manner.wait_s)
            ident = report["id"]
            return self._show(report)
        except BusError as error:
            ident = error.ident if isinstance(error, NoAnswer) else ""
            note(str(error))
            return False
        finally:
            self._overheard.done(
                ident, f"{manner.uid}/{ident}"
            )  # as in the mids of a private swarm, and of a public one

    def _show(self, report: dict[str, Any]) -> bool:
        for _, value in values_of(report):
            self._seen.note(value)
        return print_results(report) if self._manner.as_json else print_readably(report)


async def script_lines(most_bytes: int) -> AsyncIterator[str]:
    """The lines of stdin. Nothing else waits for the loop meanwhile, so it may stand still. Raises
    MalformedMessage."""
    while line := sys.stdin.buffer.readline(most_bytes + 1):
        if len(line) > most_bytes:
            raise MalformedMessage(
                f"a line has more than {most_bytes} bytes, which is what bus.max_message_bytes allows"
            )
        yield line.decode(errors="surrogateescape").rstrip("\r\n")


async def unless_interrupted(saying: Coroutine[Any, Any, bool]) -> bool:
    """Ctrl-C ends the waiting for an answer, not the chat."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(saying)
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        note("not waited for; what was said runs all the same")
        return False
    finally:
        loop.remove_signal_handler(signal.SIGINT)
