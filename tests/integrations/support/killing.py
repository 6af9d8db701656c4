"""The kill test: a program adds messages and is ended with SIGKILL at random moments."""

import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 5
# The first message may take long, because the framework loads.
START_S, LONGEST_S = 60.0, 0.4


@dataclass(frozen=True, slots=True)
class Killed:
    """What programs added before their ends: the numbers of messages."""

    acknowledged: list[int]
    unsure: list[list[int]]
    """Of each round, the call that was interrupted: all or none of its messages are stored."""


def add_until_killed(
    program: str, folder: Path, *arguments: str, rounds: int = ROUNDS, batch: int = 1
) -> Killed:
    """Run a program in a folder several times, and kill each run at a random moment.

    The last argument of the program is a number, N. It adds messages until it is killed, `batch` of
    them per call: N, N + 1, ... After each call it prints the numbers, one a line, with
    `flush=True`. The messages of a test must contain their numbers.
    """
    file = folder / "killed.py"
    file.write_text(program)
    acknowledged: list[int] = []
    unsure: list[list[int]] = []
    for _ in range(rounds):
        first = (unsure[-1][-1] + 1) if unsure else 0
        acknowledged += (added := _run([sys.executable, str(file), *arguments, str(first)], folder))
        next_call = first + len(added) // batch * batch
        # A call whose numbers are printed only in part was complete.
        acknowledged += range(first + len(added), next_call + batch * (len(added) % batch > 0))
        next_call += batch * (len(added) % batch > 0)
        unsure.append([*range(next_call, next_call + batch)])
    return Killed(acknowledged, unsure)


def assert_kept(stored: Sequence[int], killed: Killed) -> None:
    """Fail unless each acknowledged message is stored once and in order.

    Of an interrupted call, all or none of its messages may be stored too.
    """
    kept = [call for call in killed.unsure if call[0] in stored]
    assert [*stored] == sorted([*killed.acknowledged, *(n for call in kept for n in call)])


def _run(command: Sequence[str], folder: Path) -> list[int]:
    """Return the numbers that a program printed before it was killed."""
    errors = folder / "killed.err"
    with errors.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file
        )
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        time.sleep(random.uniform(0, LONGEST_S))
        ended = process.poll()
        process.kill()
        lines = [first, *process.stdout.readlines()]
    finally:
        process.kill()
        process.wait(START_S)
        process.stdout.close()
    assert first and ended is None, f"the program ended itself:\n{errors.read_text()[-4000:]}"
    return [int(line) for line in lines if line.endswith(b"\n")]
