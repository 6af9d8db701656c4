"""Commands that are told to end while they work: they leave nothing half made."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.child import CHECKOUT
from tests.support.program import COMMAND, Program

WRITES = """
import sys, time
from pathlib import Path
from memrelay.cli.terminal.ending import end_orderly
from memrelay.cli.commands.export import write_whole

def write(file):
    file.write(b"half")
    print("begun", flush=True)
    time.sleep(60)

end_orderly()
write_whole(Path(sys.argv[1]), write)
"""
WORKS = """
import time, uvloop
from memrelay.cli.terminal.ending import interruptible

async def work():
    with interruptible():
        print("begun", flush=True)
        time.sleep(60)

try:
    uvloop.run(work())
except KeyboardInterrupt:
    print("interrupted")
"""


def told_once_begun(number: int, script: str, *arguments: str) -> tuple[int, str]:
    """(exit code, what it says after it has begun) of a Python program that gets a signal while it
    works."""
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None and program.stdout.readline() == "begun\n"
        program.send_signal(number)
        said = program.communicate(timeout=30)[0]
    return program.returncode, said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_file_that_is_being_written_leaves_nothing(
    number: signal.Signals, tmp_path: Path
) -> None:
    (file := tmp_path / "notes.jsonl").write_text("before")

    code, _ = told_once_begun(number, WRITES, str(file))

    assert code == 128 + number
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [
        ("notes.jsonl", "before")
    ]


def test_ctrl_c_ends_work_that_waits_for_nothing() -> None:
    began = time.monotonic()

    assert told_once_begun(signal.SIGINT, WORKS) == (0, "interrupted\n")
    assert time.monotonic() - began < 30


def test_a_command_that_is_told_to_end_says_by_its_exit_code_that_it_was(served: Program) -> None:
    with subprocess.Popen(
        [*COMMAND, "tail", "memory_test"],
        cwd=served.folder,
        env=served.environment,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    ) as tail:
        assert tail.stdout is not None
        served.run("say", "memory_test", "/read")
        tail.stdout.readline()
        tail.send_signal(signal.SIGTERM)

        assert tail.wait(30) == 128 + signal.SIGTERM
