"""Where the Unix socket of a data folder is.

The path of a Unix socket is limited to about 100 bytes. The socket is in the data folder if that
fits, else in a private folder in the system's temporary folder. `<data folder>/socket.path` records
it: relative in the first case, so that the folder can be moved, copied or mounted elsewhere.
"""

import os
import stat
import sys
import tempfile
from pathlib import Path

SOCKET_NAME = "server.sock"
RECORD_NAME = "socket.path"
# sun_path without its final zero.
LONGEST_BYTES = 103 if sys.platform == "darwin" else 107

# A link in a short folder to the data folder that it belongs to.
_BACK_LINK = "data"
_LONGEST_TEMPORARY_BYTES = 60


def find_socket(data_folder: Path) -> Path | None:
    """Return the socket of the last server that was launched on this folder, None without one.

    A killed server leaves its socket, so only connecting shows whether it lives. A short folder of
    another data folder, or one that other users can write to, is ignored.
    """
    path = _read_record(data_folder)
    return path if path is not None and path.is_socket() else None


def find_data_folder(socket: Path) -> Path:
    """Return the data folder of a socket."""
    link = socket.parent / _BACK_LINK
    return link if link.is_symlink() else socket.parent


def choose_socket(data_folder: Path) -> Path:
    """Choose the socket's path and record it; the caller must hold the folder's lock.

    A short folder is reused, and stays when the server ends, so that the address survives
    restarts. Raises OSError.
    """
    path = data_folder.absolute() / SOCKET_NAME
    if len(os.fsencode(path)) <= LONGEST_BYTES:
        _write_record(data_folder, SOCKET_NAME)
        return path
    known = _read_record(data_folder)
    if known is not None and known.parent != data_folder.absolute():
        return known
    path = _make_short_folder(data_folder) / SOCKET_NAME
    _write_record(data_folder, str(path))
    return path


def _read_record(data_folder: Path) -> Path | None:
    try:
        text = os.fsdecode((data_folder / RECORD_NAME).read_bytes()).strip()
    except OSError:
        return None
    if not text:
        return None
    path = data_folder.absolute() / text
    if path.parent == data_folder.absolute() or _is_private_folder(path.parent, data_folder):
        return path
    return None


def _is_private_folder(short: Path, data_folder: Path) -> bool:
    """Return whether a short folder belongs to this data folder, not to a copy or another user."""
    try:
        found, data = short.lstat(), data_folder.stat()
        same = os.path.samefile(short / _BACK_LINK, data_folder)
    except OSError:
        return False
    private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
    return private and same and found.st_uid in (os.geteuid(), data.st_uid)


def _make_short_folder(data_folder: Path) -> Path:
    parent = tempfile.gettempdir()
    if len(os.fsencode(parent)) > _LONGEST_TEMPORARY_BYTES:
        parent = "/tmp"
    short = Path(tempfile.mkdtemp(prefix="memrelay-", dir=parent))
    (short / _BACK_LINK).symlink_to(data_folder.absolute(), target_is_directory=True)
    return short


def _write_record(data_folder: Path, text: str) -> None:
    """Replace the record as a whole, so that a reader never sees half of an address."""
    fresh = data_folder / f"{RECORD_NAME}.new"
    fresh.write_bytes(os.fsencode(text + "\n"))
    fresh.replace(data_folder / RECORD_NAME)
