"""The users (ACL) of the embedded server, and the password of its default user.

`<data folder>/password` holds the password, which Memrelay's own clients read. The server reads
`<data folder>/users.acl`, which holds only digests of passwords.
"""

import os
import secrets
from hashlib import sha256
from pathlib import Path

from memrelay.bus.client.url import Address
from memrelay.bus.embedded.socket_path import find_socket

PASSWORD_NAME = "password"
USERS_NAME = "users.acl"
PASSWORD_BYTES = 16

_DEFAULT_USER = "user default "


def find_address(data_folder: Path) -> Address | None:
    """Return the address of the last server that was launched on this folder, None without one."""
    socket = find_socket(data_folder)
    if socket is None:
        return None
    return Address(path=str(socket), password=read_password(data_folder))


def read_password(data_folder: Path) -> str:
    """Return the password of the default user, "" if the folder has none. Raises OSError."""
    try:
        return (data_folder / PASSWORD_NAME).read_text("utf-8", errors="replace").strip()
    except FileNotFoundError:
        return ""


def write_users(data_folder: Path) -> Path:
    """Return the server's file of users, after giving the default user its password.

    The first call creates the password. Users that an administrator stored with ACL SAVE are kept.
    The caller must hold the folder's lock. Raises OSError.
    """
    password = read_password(data_folder)
    if password:
        (data_folder / PASSWORD_NAME).chmod(0o600)
    else:
        password = secrets.token_hex(PASSWORD_BYTES)
        _write_private(data_folder / PASSWORD_NAME, password + "\n")
    users = data_folder / USERS_NAME
    saved = users.read_text("utf-8").splitlines() if users.exists() else []
    others = [line for line in saved if not line.startswith(_DEFAULT_USER)]
    default = f"{_DEFAULT_USER}on #{sha256(password.encode()).hexdigest()} ~* &* +@all"
    _write_private(users, "\n".join([default, *others, ""]))
    return users


def _write_private(path: Path, text: str) -> None:
    """Replace a file as a whole by one that only this user can read."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
