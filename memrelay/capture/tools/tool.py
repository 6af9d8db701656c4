"""The description of a coding tool that the installer needs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

# Every registered command contains this path, by which its entry is recognized.
HOOK_PATH = "memrelay/capture/hook.py"


class SettingsFault(ValueError):
    """The settings of a tool cannot be changed. `line` counts from 1; 0 is the whole file."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class Tool(Protocol):
    """A coding tool with a file of settings that registers the hook."""

    @property
    def name(self) -> str:
        """The name on the command line, also the agent of the turns: `claude-code`."""

    @property
    def title(self) -> str:
        """The name of the product: `Claude Code`."""

    def find_settings(self, environ: Mapping[str, str], home: Path) -> Path:
        """Return the user's file that registers the hook. It need not exist."""

    def add(self, text: str, command: str) -> str:
        """Return the settings with the hook. `text` is "" for a file that does not exist.

        Raises SettingsFault: if the settings are invalid.
        """

    def remove(self, text: str) -> str:
        """Return the settings without entries of the hook; the rest keeps its text.

        Raises SettingsFault: if the settings are invalid.
        """

    def list_notes(self, settings: Path) -> list[str]:
        """Return what the user has to do or know after the installation.

        Raises SettingsFault: other settings of the tool are invalid.
        """
