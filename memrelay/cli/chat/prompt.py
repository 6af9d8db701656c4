"""The chat prompt: history, and completion of commands and of guids that were shown."""

import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession, print_formatted_text
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.patch_stdout import patch_stdout

from memrelay.cli.chat.conversation import ShownRecords
from memrelay.cli.terminal import escaped
from memrelay.cli.terminal.readable import short

QUIT = "/quit"
MENU_LINES = 6


class Prompt:
    """Read lines from the terminal. `history` is a file that only this user may read."""

    def __init__(
        self, name: str, commands: dict[str, str], shown: ShownRecords, history: Path
    ) -> None:
        self._name = escaped(name)
        self._session: PromptSession[str] = PromptSession(
            history=_open_history(history),
            completer=ChatCompleter(commands, shown),
            complete_while_typing=False,
            reserve_space_for_menu=MENU_LINES,
        )

    async def lines(self) -> AsyncIterator[str]:
        """Yield typed lines until Ctrl-D or /quit. Ctrl-C discards the line."""
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
    """Print a gray line above the prompt."""
    print_formatted_text(FormattedText([("fg:ansibrightblack", escaped(text))]))


class ChatCompleter(Completer):
    """Complete commands at the start of a line, and guids of shown records after a command.

    `commands` maps a command to its description.
    """

    def __init__(self, commands: dict[str, str], shown: ShownRecords) -> None:
        self._commands, self._shown = commands | {QUIT: "end the chat"}, shown

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/"):
            return
        *before, word = text.split(" ")
        if not before:
            for command, description in self._commands.items():
                if command.startswith(word):
                    yield Completion(command, -len(word), display_meta=escaped(description))
            return
        for guid, content in self._shown.find(word.removesuffix("…")):
            yield Completion(guid, -len(word), display=short(guid), display_meta=escaped(content))


class _TextHistory(FileHistory):
    """Skip lines that are not UTF-8, which a terminal can send."""

    def store_string(self, string: str) -> None:
        if string.isascii() or string.encode(errors="ignore").decode() == string:
            super().store_string(string)


def _open_history(file: Path) -> History:
    """Return the history in a private file, or in memory if the file cannot be written."""
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        file.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return _TextHistory(str(file))
