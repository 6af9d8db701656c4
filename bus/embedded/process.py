"""The server's process: its options, its birth, its last words and its end."""

import ctypes
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from memrelay.bus.embedded.append_only_file import manifest_of

LOG_NAME = "server.log"

# Valkey from 9.0 on keeps what is longer for a client that does not read it without counting it, so
# that no limit holds.
UNCOUNTED = "min-string-size-avoid-copy-reply"
NEVER = 2**31 - 1  # bytes: longer than any value

_PR_SET_PDEATHSIG = 1
_LAST_WORDS_BYTES = 4096
_LAST_WORDS_LINES = 10
_CHECKER = re.compile(r"\b(valkey|redis)-check-aof\b")

# Looked up here, before any fork: a forked child must not load libraries.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def options(data_folder: Path, socket_path: Path) -> list[str]:
    """Everything acknowledged is on disk, nothing is evicted, nothing listens on a port.

    Those who stop reading are cut off: each at a size, and beyond `maxmemory-clients` of all of
    them those who keep most.
    """
    return [
        *("--port", "0"),
        *("--unixsocket", str(socket_path)),
        *("--unixsocketperm", "700"),
        *("--dir", str(data_folder)),
        *("--appendonly", "yes"),
        *("--appendfsync", "always"),
        *("--save", ""),
        *("--aof-use-rdb-preamble", "no"),  # a dump of a stream has what was deleted from it too
        *("--maxmemory-policy", "noeviction"),
        *("--client-output-buffer-limit", "pubsub", "256mb", "128mb", "60"),
        *("--maxmemory-clients", "512mb"),
        *("--daemonize", "no"),
        *("--logfile", str(data_folder / LOG_NAME)),
    ]


def spawn(
    command: list[str], log: Path, *, keep: int, with_parent: bool
) -> subprocess.Popen[bytes]:
    """Start the server; it inherits the descriptor `keep`, its lock.

    It has a session of its own, so that Ctrl-C reaches the program alone, which then stops its
    parts in
    order. What it says before it has opened its log goes there too. With `with_parent` this must
    run in the
    main thread, since the kernel counts the death of the thread that forked. Raises OSError.
    """
    with log.open("ab") as errors:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(keep,),
            start_new_session=True,
            preexec_fn=_die_with(os.getpid()) if with_parent else None,
        )


def end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """SIGTERM, so that it syncs and tidies up; SIGKILL after `grace_s`. Blocks until it is gone."""
    process.terminate()
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def size_of(log: Path) -> int:
    """Bytes in the log now: where the words of the next server begin."""
    return log.stat().st_size if log.exists() else 0


def last_words(log: Path, since: int) -> str:
    """The last lines that were logged after the first `since` bytes."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = since if since <= size else 0  # rotated meanwhile
            file.seek(max(start, size - _LAST_WORDS_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join(text.splitlines()[-_LAST_WORDS_LINES:]) or "(it logged nothing)"


def remedy(words: str, binary: Path, data_folder: Path) -> str:
    """How to follow the server's advice on an append-only file that is damaged; "" where it gives
    none.

    The program that it names is not in the wheel, but is the server itself under another name.
    """
    if (named := _CHECKER.search(words)) is None:
        return ""
    run = f"exec -a {named[0]} {shlex.quote(str(binary))} --fix {shlex.quote(str(manifest_of(data_folder)))}"
    return (
        f"\nThat program is the server by another name. Copy {data_folder}, then run: bash -c {shlex.quote(run)}\n"
        "It gives up what was written behind the damage; docs/operations.md says what that means for messages"
    )


def _die_with(parent: int) -> Callable[[], None] | None:
    """What the child does between fork and exec, on Linux: ask to be told of its parent's death."""
    if _prctl is None:
        return None
    prctl, number = _prctl, int(signal.SIGTERM)

    def ask_for_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked, so no signal will come
            os._exit(1)

    return ask_for_signal
