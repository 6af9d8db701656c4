"""Faulty blocks for tests: they raise, exit, use up memory, or raise Transient."""

import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memrelay.blocks.contract import BlockArgs, Call, Transient
from memrelay.blocks.memory_args import NewRecordArgs
from memrelay.blocks.memory_write import memory_write
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from tests.support.errands import UrlArgs, asks, fetches, notes, refuse

MINE, BOMB, EXIT, GLUTTON = (
    "mine",
    "bomb",
    "exit",
    "glutton",
)  # texts that trigger each fault
UNTIL = (
    # TEXT until COUNT FILE: transient until FILE<alias> has COUNT bytes; each attempt adds one
    " until "
)
PIECE = 32 << 20
# longer than a worker needs from its first attempt to a crash, shorter than its watchdog's limit
NAP_S = 0.4


class Speechless(Exception):
    """An exception whose own text cannot be built."""

    def __str__(self) -> str:
        raise IndexError


def fails(call: Call, args: NewRecordArgs) -> Message:
    """Write as memory_write does, then fail in the way that the text names."""
    answer = memory_write(call, args)
    if MINE in call.text and not Path(call.text.rpartition(" ")[2]).is_file():
        raise Speechless if "speechless" in call.text else RuntimeError("stepped on a mine")
    if EXIT in call.text:
        sys.exit("a library thought that this was its own program")
    if GLUTTON in call.text:
        with _little_memory():
            _eat()
    return answer


def crashes(call: Call, args: NewRecordArgs) -> Message:
    """Write as memory_write does, then end the process if the text contains a bomb."""
    answer = memory_write(call, args)
    if BOMB in call.text:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer


def sleeps(call: Call, args: NewRecordArgs) -> Message:
    """Write as memory_write does, then sleep."""
    answer = memory_write(call, args)
    time.sleep(NAP_S)
    return answer


def waits(call: Call, args: NewRecordArgs) -> Message:
    """Write as memory_write does, then raise Transient until the time that the text names."""
    answer = memory_write(call, args)
    _await_time(call)
    return answer


def waits_then_crashes(call: Call, args: NewRecordArgs) -> Message:
    """Do the same as `waits`, then end the process if the text contains a bomb."""
    _await_time(call)
    return crashes(call, args)


def waits_without_memory(call: Call, args: BlockArgs) -> Message:
    """Answer with the text once its time has come; end the process if the text contains a bomb."""
    if BOMB in call.text:
        os.kill(os.getpid(), signal.SIGKILL)
    _await_time(call)
    return call.reply(call.text)


@contextmanager
def _little_memory() -> Iterator[None]:
    """Limit the memory of this process, as on a small machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 8 * PIECE, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _eat() -> None:
    eaten = []
    while True:
        eaten.append(bytes(PIECE))


def make_waiting(text: str, file: Path, tries: int = 1_000_000) -> str:
    """Return a text that `waits` delays so many times."""
    return f"{text}{UNTIL}{tries} {file}"


def _await_time(call: Call) -> None:
    _, waits_for_it, condition = call.text.partition(UNTIL)
    if waits_for_it:
        count, path = condition.split(" ", 1)
        with open(path + call.agent.alias, "ab") as file:
            file.write(b".")
            if file.tell() <= int(count):
                raise Transient(
                    "it is not the time", after_s=0.01 if "at once" in call.text else None
                )


def register_test_blocks() -> None:
    """Register the blocks in a worker process only. Here they would appear in the schema and in
    the documentation tests.
    """
    block("test_fails", NewRecordArgs)(fails)
    block("test_crashes", NewRecordArgs)(crashes)
    block("test_sleeps", NewRecordArgs)(sleeps)
    block("test_waits", NewRecordArgs)(waits)
    block("test_waits_then_crashes", NewRecordArgs)(waits_then_crashes)
    block("test_waits_without_memory", BlockArgs)(waits_without_memory)
    block("test_asks", BlockArgs, errand="tests.support.errands:fetch")(asks)
    block("test_asks_here", NewRecordArgs, errand=refuse)(asks)
    block("test_fetches", UrlArgs)(fetches)
    block("test_fetches_at_once", UrlArgs, ordered=False)(fetches)
    block("test_notes", BlockArgs)(notes)
