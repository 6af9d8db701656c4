"""Send the lines of a prompt or a script as messages, and show the results."""

import asyncio
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Container, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from memrelay.bus.codec import decode
from memrelay.bus.errors import BusError, MalformedMessage, NoAnswer
from memrelay.bus.request import Requester
from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.log import LogEntry
from memrelay.cli.composition import note
from memrelay.cli.messages import (
    list_values,
    make_envelope,
    print_readably,
    print_results,
    send_and_wait,
)
from memrelay.cli.terminal.readable import is_record, text_lines
from memrelay.pipelines.commands import hint_for

# Own message ids that are remembered, and messages of others that are held back.
MAX_MESSAGES = 1000
# Records whose guids the prompt completes.
MAX_RECORDS = 500
# Characters of a content next to a completed guid.
EXCERPT = 40


class OtherMessages:
    """Show messages that other people send to the swarm.

    Own messages, recognized by the ids of their inputs, and answers of blocks are left out.
    `blocks` are the names under which blocks answer. `show` gets one line of text.
    """

    def __init__(self, blocks: Container[str], show: Callable[[str], None]) -> None:
        self._blocks, self._show = blocks, show
        self._own_ids: deque[str] = deque(maxlen=MAX_MESSAGES)
        self._held_back: deque[LogEntry] = deque(maxlen=MAX_MESSAGES)
        self._is_sending = False

    def start_sending(self) -> None:
        """Hold back new messages until the id of the own message is known."""
        self._is_sending = True

    def finish_sending(self, *own_ids: str) -> None:
        """Remember the ids of the own message and show the messages that were held back."""
        self._own_ids += own_ids
        self._is_sending = False
        self._release()

    def receive(self, entries: list[LogEntry]) -> None:
        """Show new entries of the log, or hold them back."""
        self._held_back += entries
        if not self._is_sending:
            self._release()

    def _release(self) -> None:
        while self._held_back:
            entry = self._held_back.popleft()
            if entry.mid.partition(".")[0] not in self._own_ids:
                self._show_entry(entry)

    def _show_entry(self, entry: LogEntry) -> None:
        try:
            message = decode(entry.data, len(entry.data))
        except MalformedMessage:
            return
        if message.sender not in self._blocks:
            for line in text_lines(f"{message.sender}: {message.text}"):
                self._show(line)


class ShownRecords:
    """Guids of shown records, with the beginnings of their contents, for completion."""

    def __init__(self) -> None:
        self._contents: dict[str, str] = {}

    def add_result(self, value: Any) -> None:
        """Remember the guids in a shown result."""
        for one in value if isinstance(value, list) else [value]:
            if is_record(one):
                self._add(one["guid"], one["content"][:EXCERPT])
            elif isinstance(one, dict) and isinstance(one.get("guid"), str):
                self._add(one["guid"], self._contents.get(one["guid"], ""))

    def find(self, part: str) -> list[tuple[str, str]]:
        """Return (guid, content) of the records with `part` in the guid, the newest first."""
        return [
            (guid, content) for guid, content in reversed(self._contents.items()) if part in guid
        ]

    def _add(self, guid: str, content: str) -> None:
        self._contents.pop(guid, None)
        self._contents[guid] = content
        if len(self._contents) > MAX_RECORDS:
            del self._contents[next(iter(self._contents))]


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """Where and how a chat sends. `max_bytes` limits an envelope."""

    uid: str
    swarm: str
    user: str
    wait_s: float
    max_bytes: int
    as_json: bool
    commands: Mapping[str, str]  # their descriptions by word


class Conversation:
    """Send one message after the other and show its results.

    `shown` learns the guids of shown records, `others` the ids of own messages.
    """

    def __init__(
        self,
        requester: Requester,
        options: ChatOptions,
        shown: ShownRecords,
        others: OtherMessages,
    ) -> None:
        self._requester, self._options = requester, options
        self._shown, self._others = shown, others

    async def send(self, text: str) -> bool:
        """Send a text, show the results, and return whether it worked. Errors go to stderr."""
        options, message_id = self._options, ""
        self._others.start_sending()
        try:
            data = make_envelope(text, options.user, options.max_bytes)
            entry = NewEntry(options.uid, data, options.swarm)
            report = await send_and_wait(self._requester, entry, options.wait_s)
            message_id = report["id"]
            return self._show(report, hint_for(text, options.commands))
        except BusError as error:
            message_id = error.ident if isinstance(error, NoAnswer) else ""
            note(str(error))
            return False
        finally:
            # The id in the mids of a private swarm, and of a public one.
            self._others.finish_sending(message_id, f"{options.uid}/{message_id}")

    def _show(self, report: dict[str, Any], hint: str) -> bool:
        for _, value in list_values(report):
            self._shown.add_result(value)
        show = print_results if self._options.as_json else print_readably
        return show(report, hint=hint)


async def script_lines(max_bytes: int) -> AsyncIterator[str]:
    """Yield the lines of stdin. Reading blocks the loop, which has nothing else to do.

    Raises MalformedMessage: if a line has more than `max_bytes` bytes.
    """
    while line := sys.stdin.buffer.readline(max_bytes + 1):
        if len(line) > max_bytes:
            raise MalformedMessage(
                f"a line has more than {max_bytes} bytes, the limit bus.max_message_bytes"
            )
        yield line.decode(errors="surrogateescape").rstrip("\r\n")


async def unless_interrupted(sending: Coroutine[Any, Any, bool]) -> bool:
    """Await a message. Ctrl-C ends the wait, not the chat."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(sending)
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        note("no longer waiting; the message still runs")
        return False
    finally:
        loop.remove_signal_handler(signal.SIGINT)
