"""Where the socket of a data folder is.

A unix socket's path is limited to about a hundred bytes. So it lies in the data folder where that
fits, else
in a private folder of its own under the system's temporary one. `<data folder>/socket.path` says
which: it is
relative in the first case, so that it stays true when the folder is moved, copied or mounted
elsewhere.
"""

import os
import stat
import sys
import tempfile
from pathlib import Path

SOCKET_NAME = "server.sock"
RECORD_NAME = "socket.path"
LONGEST_BYTES = 103 if sys.platform == "darwin" else 107  # sun_path without its closing zero

_BACK_LINK = "data"  # in a short folder: whose socket this is
_LONGEST_TEMPORARY_BYTES = 60


def socket_of(data_folder: Path) -> Path | None:
    """The socket of the server that was launched last on this folder, None where there is none.

    A server that was killed leaves its socket behind, so only connecting tells whether it lives. A
    short
    folder that is not this data folder's, or that others could write to, is not believed.
    """
    path = _recorded(data_folder)
    return path if path is not None and path.is_socket() else None


def settle_socket(data_folder: Path) -> Path:
    """Choose where the socket will be and record it; only the holder of the folder's lock may call
    this.

    A short folder is used again, and left in place when the server ends, so that the address stays
    the same
    over restarts, whoever restarts it. Raises OSError.
    """
    path = data_folder.absolute() / SOCKET_NAME
    if len(os.fsencode(path)) <= LONGEST_BYTES:
        _record(data_folder, SOCKET_NAME)
        return path
    known = _recorded(data_folder)
    if known is not None and known.parent != data_folder.absolute():
        return known
    path = _make_short_folder(data_folder) / SOCKET_NAME
    _record(data_folder, str(path))
    return path


def _recorded(data_folder: Path) -> Path | None:
    try:
        text = os.fsdecode((data_folder / RECORD_NAME).read_bytes()).strip()
    except OSError:
        return None
    if not text:
        return None
    path = data_folder.absolute() / text
    if path.parent == data_folder.absolute() or _is_private_folder_of(path.parent, data_folder):
        return path
    return None


def _is_private_folder_of(short: Path, data_folder: Path) -> bool:
    """Whether a short folder belongs to this data folder, not to its copy, nor to a stranger in
    /tmp."""
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


def _record(data_folder: Path, text: str) -> None:
    """Replaced as a whole, so that a reader sees the old address or the new one and never half of
    one."""
    fresh = data_folder / f"{RECORD_NAME}.new"
    fresh.write_bytes(os.fsencode(text + "\n"))
    fresh.replace(data_folder / RECORD_NAME)
