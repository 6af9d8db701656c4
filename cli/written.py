"""Files that commands write: there when they are whole and on disk, and what was there before stays
until then."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TypeVar

from cli.composition import fail
from memory.on_disk import sync_folder

Result = TypeVar("Result")


def write_whole(
    output: Path, write: Callable[[IO[bytes]], Result], *, private: bool = False
) -> Result:
    """What `write` answers, which is given the file; a pipe or a device is written into. Ends the
    command without a folder.

    `private`: for this user's eyes alone. Raises OSError, which names the file.
    """
    if not output.resolve().parent.is_dir():
        fail(f"{output.resolve().parent} is no folder; make it, or name another file")
    with _named(output):
        if output.exists() and not output.is_file():
            with output.open("wb") as file:
                return write(file)
        return _beside(output.resolve(), write, private)


def _beside(output: Path, write: Callable[[IO[bytes]], Result], private: bool) -> Result:
    """And then in its place."""
    draft = output.with_name(f".{output.name}.unfinished-{secrets.token_hex(4)}")
    with ExitStack() as undo:
        file = undo.enter_context(draft.open("xb"))
        undo.callback(draft.unlink, missing_ok=True)
        if private:
            draft.chmod(0o600)
        result = write(file)
        file.flush()
        os.fsync(file.fileno())
        draft.replace(output)
    sync_folder(output.parent)
    return result


@contextmanager
def _named(output: Path) -> Iterator[None]:
    """What the system says of a write does not name the file."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(output)) from error
