"""Install the hook into the settings of a coding tool, and remove it again.

Before a change, the settings are copied to the folder `backups`. `installed.json` records each
changed file with the digest of its text. A file that is unchanged since gets its earlier bytes
back.
"""

import hashlib
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memrelay.capture.configuration import Paths, make_private_folder, write_private
from memrelay.capture.tools import Tool
from memrelay.capture.tools.tool import SettingsFault

RECORDS, BACKUPS = "installed.json", "backups"


class CannotChange(Exception):
    """The settings of a tool cannot be changed. The text names the file, the line and the fix."""


@dataclass(frozen=True, slots=True)
class Record:
    """A file of settings after the installation."""

    settings: str
    """Its absolute path."""
    existed: bool
    """Whether there was such a file before. Then its backup has the earlier bytes."""
    digest: str
    """The SHA-256 digest of the text that the installation wrote."""


@dataclass(frozen=True, slots=True)
class Change:
    """The outcome of an installation or removal."""

    settings: Path
    changed: bool
    backup: Path | None = None
    """The earlier settings, None if there were none."""
    restored: bool = False
    """Whether a removal gave the file its earlier bytes back, or deleted a new file."""


class Installation:
    """The settings of one user, below the folders in `paths`."""

    def __init__(self, paths: Paths, environ: Mapping[str, str], home: Path) -> None:
        self._paths, self._environ, self._home = paths, environ, home

    def list_installed(self) -> list[str]:
        """Return the names of the tools that have the hook, by the records."""
        return sorted(self._read_records())

    def find_settings(self, tool: Tool) -> Path:
        """Return the file of the user that the tool reads now."""
        return tool.find_settings(self._environ, self._home).absolute()

    def is_installed(self, tool: Tool) -> bool:
        """Return whether the settings have the hook. Raises CannotChange: they are invalid."""
        settings = self.find_settings(tool)
        text = _read(settings)
        return _strip(tool, settings, text or "") != (text or "")

    def check(self, tool: Tool) -> None:
        """Raise CannotChange if the settings are invalid, before anything is changed."""
        settings = self.find_settings(tool)
        self._make_text(tool, settings, _strip(tool, settings, _read(settings) or ""))

    def install(self, tool: Tool) -> Change:
        """Add the hook to the settings, unless they have exactly it. Raises CannotChange."""
        settings = self.find_settings(tool)
        current, record = _read(settings), self._read_records().get(tool.name)
        backup = self._backup(tool)
        if current is not None and record is not None and _is_as_written(record, settings, current):
            original = _read(backup) if record.existed else None
        else:
            bare = None if current is None else _strip(tool, settings, current)
            # A file with nothing but the hook was not there before.
            original = None if bare == "" and current else bare
        text = self._make_text(tool, settings, original or "")
        if original is not None:
            make_private_folder(backup.parent)
            write_private(backup, original.encode())
        if text != current:
            _write(settings, text)
        self._record(tool, Record(str(settings), original is not None, _digest(text)))
        return Change(settings, text != current, backup if original is not None else None)

    def uninstall(self, tool: Tool) -> Change:
        """Remove the hook from the settings.

        A file that is unchanged since the installation gets its earlier bytes back. Another one
        only loses the entries of the hook. Raises CannotChange.
        """
        record = self._read_records().get(tool.name)
        settings = Path(record.settings) if record else self.find_settings(tool)
        current, backup = _read(settings), self._backup(tool)
        original: str | None
        if current is None:
            original, restored = None, False
        elif record is not None and _is_as_written(record, settings, current):
            original, restored = _read(backup) if record.existed else None, True
        else:
            original, restored = _strip(tool, settings, current), False
        if original is None or (not restored and original == "" != current):
            settings.unlink(missing_ok=True)
        elif original != current:
            _write(settings, original)
        self._record(tool, None)
        kept = backup if backup.exists() and not restored else None
        if restored:
            backup.unlink(missing_ok=True)
            with suppress(OSError):  # backups of other tools
                backup.parent.rmdir()
        return Change(settings, original != current, kept, restored)

    def _make_text(self, tool: Tool, settings: Path, original: str) -> str:
        try:
            return tool.add(original, make_command(self._paths.hook, tool.name))
        except SettingsFault as fault:
            raise _describe(settings, fault) from fault

    def _backup(self, tool: Tool) -> Path:
        return self._paths.config / BACKUPS / tool.name

    def _read_records(self) -> dict[str, Record]:
        try:
            values: dict[str, Any] = json.loads((self._paths.config / RECORDS).read_bytes())
            return {name: Record(**value) for name, value in values.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, AttributeError) as error:
            path = self._paths.config / RECORDS
            raise CannotChange(f"{path} is damaged ({error}); delete it") from error

    def _record(self, tool: Tool, record: Record | None) -> None:
        records = {name: one for name, one in self._read_records().items() if name != tool.name}
        if record is not None:
            records[tool.name] = record
        if not records:
            (self._paths.config / RECORDS).unlink(missing_ok=True)
            return
        make_private_folder(self._paths.config)
        data = json.dumps({name: asdict(one) for name, one in sorted(records.items())}, indent=2)
        write_private(self._paths.config / RECORDS, data.encode() + b"\n")


def make_command(hook: Path, tool: str) -> str:
    """Return the shell command of the hook. Isolated, and without `site`, Python starts fast."""
    return f"python3 -I -S {shlex.quote(str(hook))} {tool}"


def _read(path: Path) -> str | None:
    """Return the text of a file, None if it does not exist. Raises CannotChange."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise CannotChange(f"{path}: not UTF-8; save it as UTF-8, then try again") from error


def _write(path: Path, text: str) -> None:
    """Replace a file in one step, with its permissions. A link stays one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    target = path.resolve()
    descriptor, draft = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    with open(descriptor, "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    if target.exists():
        shutil.copymode(target, draft)
    Path(draft).replace(target)


def _strip(tool: Tool, settings: Path, text: str) -> str:
    try:
        return tool.remove(text)
    except SettingsFault as fault:
        raise _describe(settings, fault) from fault


def _describe(settings: Path, fault: SettingsFault) -> CannotChange:
    line = f":{fault.line}" if fault.line else ""
    return CannotChange(f"{settings}{line}: {fault}. Nothing was changed")


def _is_as_written(record: Record, settings: Path, text: str) -> bool:
    return record.settings == str(settings) and record.digest == _digest(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
