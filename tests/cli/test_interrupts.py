"""Signals that end a command: it leaves no half-written file."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.child import CHECKOUT
from tests.support.program import COMMAND, Program

WRITE = """
import signal, sys, time
from pathlib import Path
from memrelay.cli.terminal.interrupts import exit_on_signals
from memrelay.cli.commands.export import write_atomically

def write(file):
    file.write(b"half")
    print("begun", flush=True)
    time.sleep(60)

signal.signal(signal.SIGHUP, signal.SIG_DFL)
exit_on_signals()
write_atomically(Path(sys.argv[1]), write)
"""
WORK = """
import time, uvloop
from memrelay.cli.terminal.interrupts import interruptible

async def work():
    with interruptible():
        print("begun", flush=True)
        time.sleep(60)

try:
    uvloop.run(work())
except KeyboardInterrupt:
    print("interrupted")
"""


def signal_once_begun(number: int, script: str, *arguments: str) -> tuple[int, str]:
    """Signal a script after its first line. Return its exit code and the rest of its output."""
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None and program.stdout.readline() == "begun\n"
        program.send_signal(number)
        rest = program.communicate(timeout=120)[0]
    return program.returncode, rest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_a_write_leaves_only_the_old_file(
    number: signal.Signals, tmp_path: Path
) -> None:
    (file := tmp_path / "notes.jsonl").write_text("before")

    code, _ = signal_once_begun(number, WRITE, str(file))

    assert code == 128 + number
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [
        ("notes.jsonl", "before")
    ]


def test_ctrl_c_interrupts_work_without_awaits() -> None:
    began = time.monotonic()

    assert signal_once_begun(signal.SIGINT, WORK) == (0, "interrupted\n")
    assert time.monotonic() - began < 30


def test_the_exit_code_names_the_signal_that_ended_a_command(served: Program) -> None:
    served.run("say", "memory_test", "/read")
    with subprocess.Popen(
        [*COMMAND, "tail", "memory_test", "--since", "1"],
        cwd=served.folder,
        env=served.environment,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    ) as tail:
        assert tail.stdout is not None
        tail.stdout.readline()
        time.sleep(0.5)  # it is idle
        tail.send_signal(signal.SIGTERM)

        assert tail.wait(30) == 128 + signal.SIGTERM
