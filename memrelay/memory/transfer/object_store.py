"""Backups in object stores: S3, Google Cloud Storage, Azure Blob Storage, or a folder.

A backup is a prefix with the time as its name. Each file lies there in parts, and the index, which
lists the parts with their SHA-256, is written last. So a prefix without an index is no backup.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import obstore
from msgspec import Struct
from obstore.exceptions import BaseError
from obstore.store import from_url

from memrelay.memory.engine.disk import make_folder
from memrelay.memory.errors import BadBackup
from memrelay.memory.transfer.backup import MANIFEST, read_manifest
from memrelay.memory.transfer.backup_times import NAME, format_name, parse_name

INDEX, FORMAT = "index.json", 1
PART_BYTES = 64 << 20
# Age in seconds after which a prefix without an index counts as that of a killed backup.
ABANDONED_S = 86_400


class Part(Struct, frozen=True):
    """A part of a file."""

    bytes: int
    sha256: str


class Index(Struct, frozen=True):
    """The contents of a backup: the parts of each file by its path."""

    parts: dict[str, list[Part]]
    format: int = FORMAT


class Backups:
    """The backups at a URL: s3://, gs://, az:// or file://, with a prefix.

    Files are split into parts of `part_bytes`. The environment holds the credentials, as for the
    provider's other tools. All methods raise BadBackup if the object store cannot be used.
    """

    def __init__(self, url: str, part_bytes: int = PART_BYTES) -> None:
        self._url, self._part_bytes = url, part_bytes
        with self._translate_errors():
            options = (
                {"mkdir": True, "automatic_cleanup": True} if url.startswith("file://") else {}
            )
            self._store: Any = from_url(url, **options)  # type: ignore[call-overload]

    def names(self) -> list[str]:
        """Return the names of the complete backups, oldest first."""
        with self._translate_errors():
            return [name for name in self._prefixes() if self._exists(f"{name}/{INDEX}")]

    def upload(self, folder: Path) -> str:
        """Store a backup that lies in a folder, and return its name."""
        manifest = read_manifest(folder)
        name = format_name(manifest.made_at)
        with self._translate_errors():
            if self._exists(f"{name}/{INDEX}"):
                raise BadBackup(f"{self._url} has a backup {name} already; try again in a second")
            paths = [*(file.path for file in manifest.files), MANIFEST]
            index = Index({path: self._put_file(name, folder, path) for path in paths})
            obstore.put(self._store, f"{name}/{INDEX}", msgspec.json.encode(index))
        return name

    def download(self, name: str, folder: Path) -> None:
        """Copy a backup to a folder. Raises BadBackup also for a part whose SHA-256 differs."""
        with self._translate_errors():
            index = self._read_index(name)
            self._get_file(name, MANIFEST, index, folder)
            for file in read_manifest(folder).files:
                self._get_file(name, file.path, index, folder)

    def delete(self, name: str) -> None:
        """Delete a backup, its index first."""
        with self._translate_errors():
            paths = [one["path"] for page in obstore.list(self._store, name) for one in page]
            for path in sorted(paths, key=lambda path: path != f"{name}/{INDEX}"):
                obstore.delete(self._store, path)

    def abandoned(self, now_s: float) -> list[str]:
        """Return the names of backups that were killed more than a day ago."""
        with self._translate_errors():
            old = [
                name
                for name in self._prefixes()
                if now_s - parse_name(name).timestamp() > ABANDONED_S
            ]
            return [name for name in old if not self._exists(f"{name}/{INDEX}")]

    def _prefixes(self) -> list[str]:
        found = obstore.list_with_delimiter(self._store)["common_prefixes"]
        return sorted(name for name in found if NAME.fullmatch(name))

    def _exists(self, path: str) -> bool:
        try:
            obstore.head(self._store, path)
        except FileNotFoundError:
            return False
        return True

    def _put_file(self, name: str, folder: Path, path: str) -> list[Part]:
        parts: list[Part] = []
        with (folder / path).open("rb") as file:
            while content := file.read(self._part_bytes):
                obstore.put(self._store, f"{name}/{path}.{len(parts)}", content)
                parts.append(Part(len(content), hashlib.sha256(content).hexdigest()))
        return parts

    def _read_index(self, name: str) -> Index:
        try:
            content = bytes(obstore.get(self._store, f"{name}/{INDEX}").bytes())
            index = msgspec.json.decode(content, type=Index)
        except FileNotFoundError:
            there = ", ".join(self.names()[-5:]) or "none"
            raise BadBackup(f"{self._url} has no backup {name}; the newest are: {there}") from None
        except msgspec.MsgspecError as error:
            raise BadBackup(f"the index of {name} is damaged: {error}") from error
        if index.format != FORMAT:
            raise BadBackup(f"{name} was made by a newer Memrelay; restore it with that one")
        return index

    def _get_file(self, name: str, path: str, index: Index, folder: Path) -> None:
        make_folder((folder / path).parent)
        with (folder / path).open("wb") as file:
            for number, part in enumerate(index.parts.get(path, ())):
                source = f"{name}/{path}.{number}"
                content = bytes(obstore.get(self._store, source).bytes())
                if hashlib.sha256(content).hexdigest() != part.sha256:
                    raise BadBackup(
                        f"{self._url}/{source} is damaged: its SHA-256 differs; use another backup"
                    )
                file.write(content)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise BadBackup(
                f"{self._url} cannot be used: {reason}; check the URL and the credentials"
            ) from error
