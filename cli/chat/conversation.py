"""What is said at the prompt or by a script, line by line, and what is shown of its results."""

import asyncio
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Container, Coroutine
from dataclasses import dataclass
from typing import Any

from memrelay.bus.codec import decode
from memrelay.bus.errors import BusError, MalformedMessage, NoAnswer
from memrelay.bus.request import Requester
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.log import LogEntry
from memrelay.cli.composition import note
from memrelay.cli.pipeline import ask, envelope_of
from memrelay.cli.report import print_readably, print_results, values_of
from memrelay.cli.terminal.readable import is_record, text_lines

# What others say on the swarm meanwhile.

MOST = 1000  # own messages that are remembered, and others' that are held back


class Overheard:
    """Shows what people say elsewhere: neither our own, which we know by the ids of its inputs, nor
    what blocks answer."""

    def __init__(self, blocks: Container[str], show: Callable[[str], None]) -> None:
        """`blocks` has the names that blocks say things under; `show` gets a line."""
        self._blocks, self._show = blocks, show
        self._own: deque[str] = deque(maxlen=MOST)
        self._held: deque[LogEntry] = deque(maxlen=MOST)
        self._waiting = False

    def wait(self) -> None:
        """Something of ours is on its way, with an id that is not known yet: what comes is held
        back."""
        self._waiting = True

    def done(self, *idents: str) -> None:
        """Those were its ids."""
        self._own += idents
        self._waiting = False
        self._release()

    def hear(self, said: list[LogEntry]) -> None:
        """New messages of the log."""
        self._held += said
        if not self._waiting:
            self._release()

    def _release(self) -> None:
        while self._held:
            said = self._held.popleft()
            if said.mid.partition(".")[0] not in self._own:
                self._show_one(said)

    def _show_one(self, said: LogEntry) -> None:
        try:
            message = decode(said.data, len(said.data))
        except MalformedMessage:
            return
        if message.sender not in self._blocks:
            for line in text_lines(f"{message.sender}: {message.text}"):
                self._show(line)


# The records that were shown, so that their guids need not be typed.

MOST_SEEN = 500
EXCERPT = 40  # characters of a content


class Seen:
    """Guids with the beginning of what they stand for."""

    def __init__(self) -> None:
        """Nothing was shown yet."""
        self._contents: dict[str, str] = {}

    def note(self, value: Any) -> None:
        """A result that is shown."""
        for one in value if isinstance(value, list) else [value]:
            if is_record(one):
                self._add(one["guid"], one["content"][:EXCERPT])
            elif isinstance(one, dict) and isinstance(one.get("guid"), str):
                self._add(one["guid"], self._contents.get(one["guid"], ""))

    def having(self, part: str) -> list[tuple[str, str]]:
        """(guid, content) of those that have this in their guid, the newest first."""
        return [
            (guid, content) for guid, content in reversed(self._contents.items()) if part in guid
        ]

    def _add(self, guid: str, content: str) -> None:
        self._contents.pop(guid, None)
        self._contents[guid] = content
        if len(self._contents) > MOST_SEEN:
            del self._contents[next(iter(self._contents))]


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
