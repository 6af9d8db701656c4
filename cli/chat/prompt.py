"""The prompt: a line with history, and completion of commands and of guids that were seen."""

import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession, print_formatted_text
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.patch_stdout import patch_stdout

from memrelay.cli.chat.conversation import Seen
from memrelay.cli.terminal.output import escaped
from memrelay.cli.terminal.readable import short

QUIT = "/quit"
MENU_LINES = 6


class Prompt:
    """Where a person types."""

    def __init__(self, name: str, commands: dict[str, str], seen: Seen, history: Path) -> None:
        """`history` is a file that is made for this user alone."""
        self._name = escaped(name)
        self._session: PromptSession[str] = PromptSession(
            history=_history(history),
            completer=Words(commands, seen),
            complete_while_typing=False,
            reserve_space_for_menu=MENU_LINES,
        )

    async def lines(self) -> AsyncIterator[str]:
        """What is typed, until Ctrl-D or /quit; Ctrl-C drops the line."""
        while True:
            try:
                with patch_stdout():
                    text = await self._session.prompt_async(f"{self._name}> ")
            except EOFError:
                return
            except KeyboardInterrupt:
                continue
            if text.strip() == QUIT:
                return
            yield text


def print_dimly(text: str) -> None:
    """Above the prompt, which stays as it is."""
    print_formatted_text(FormattedText([("fg:ansibrightblack", escaped(text))]))


class Words(Completer):
    """At the beginning of a line its commands, within a command the guids of records that were
    shown."""

    def __init__(self, commands: dict[str, str], seen: Seen) -> None:
        """`commands` with what they do."""
        self._commands, self._seen = commands | {QUIT: "ends the chat"}, seen

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """prompt_toolkit's call, when Tab is pressed."""
        text = document.text_before_cursor
        if not text.startswith("/"):
            return
        *before, word = text.split(" ")
        if not before:
            for command, told in self._commands.items():
                if command.startswith(word):
                    yield Completion(command, -len(word), display_meta=escaped(told))
            return
        for guid, content in self._seen.having(word.removesuffix("…")):
            yield Completion(guid, -len(word), display=short(guid), display_meta=escaped(content))


class _Kept(FileHistory):
    """Leaves out what a file in UTF-8 cannot hold: bytes that a terminal sent and that are no
    text."""

    def store_string(self, string: str) -> None:
        """prompt_toolkit's call, for each line."""
        if string.isascii() or string.encode(errors="ignore").decode() == string:
            super().store_string(string)


def _history(file: Path) -> History:
    """Kept for this user alone; in memory where the file cannot be written."""
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        file.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return _Kept(str(file))
