"""Forked child processes are real processes that end with the tests."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.child import CHECKOUT, ChildProcess, environment_without_settings, run_python
from tests.support.forked import MAY_FORK
from tests.support.processes import is_alive
from tests.support.waiting import wait_for

pytestmark = pytest.mark.skipif(not MAY_FORK, reason="processes are forked on Linux only")

# A module of a test: it shows what the process has, and then does as it is told.
SHOW = """
import json, os, signal, sys, threading, time
print(json.dumps({
    "name": __name__,
    "arguments": sys.argv[1:],
    "folder": os.getcwd(),
    "environment": sorted(os.environ),
    "input": sys.stdin.read(),
    "parent": os.getppid(),
    "loaded": sorted(sys.modules),
    "threads": threading.active_count(),
    "handles": sorted(os.listdir("/proc/self/fd"), key=int),
    "interruptible": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
}), flush=True)
print("to stderr", file=sys.stderr)
match sys.argv[1:]:
    case ["exit", code]:
        sys.exit(int(code))
    case ["raise"]:
        raise ValueError("no tea")
    case ["wait"]:
        sys.stdout.flush()
        for _ in range(12_000):
            time.sleep(0.05)  # a signal just before a sleep interrupts only the next one
"""
# Starts a process that waits, and prints its id.
STARTER = """
import sys, time
from pathlib import Path
from tests.support.child import ChildProcess
process = ChildProcess("show", ["wait"], Path(sys.argv[1]), {"PYTHONPATH": sys.argv[2]})
print(process.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def modules(tmp_path: Path) -> dict[str, str]:
    """Return the environment with which a child finds the module `show`."""
    (tmp_path / "show.py").write_text(SHOW)
    return {"PYTHONPATH": str(tmp_path)}


def start(modules: dict[str, str], *arguments: str) -> ChildProcess:
    return ChildProcess("show", arguments, Path(modules["PYTHONPATH"]) / "show.log", modules)


def test_a_child_has_its_own_arguments_environment_folder_and_streams(
    modules: dict[str, str], tmp_path: Path
) -> None:
    environment = modules | {"TEA": "green"}

    ended = run_python("show", ["exit", "3"], tmp_path, environment, b"from stdin")

    shown = json.loads(ended.out)
    assert (ended.code, ended.err) == (3, b"to stderr\n")
    assert (shown["name"], shown["arguments"]) == ("__main__", ["exit", "3"])
    assert (shown["folder"], shown["input"]) == (str(tmp_path), "from stdin")
    assert shown["environment"] == ["PYTHONPATH", "TEA"]
    assert shown["interruptible"]


def test_a_child_has_loaded_modules_and_neither_threads_nor_handles_of_others(
    modules: dict[str, str], tmp_path: Path
) -> None:
    waiting = start(modules, "wait")
    waiting.lives_until(lambda: "handles" in waiting.output)

    shown = json.loads(run_python("show", [], tmp_path, modules).out)

    assert {"memrelay.worker.service", "memrelay.web.app"} <= set(shown["loaded"])
    assert not {"numpy", "onnxruntime", "langgraph"} & set(shown["loaded"])
    assert shown["threads"] == 1
    assert len(shown["handles"]) == 4  # the streams and the folder of handles
    waiting.kill()


def test_an_exception_ends_a_child_with_its_traceback(
    modules: dict[str, str], tmp_path: Path
) -> None:
    ended = run_python("show", ["raise"], tmp_path, modules)

    assert ended.code == 1
    assert ended.err.decode().splitlines()[-1] == "ValueError: no tea"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_a_child(modules: dict[str, str], number: signal.Signals) -> None:
    process = start(modules, "wait")
    process.lives_until(lambda: "handles" in process.output)

    process.send_signal(number)

    assert process.await_end() == -number
    assert not process.lives


def test_a_child_that_ended_keeps_its_id_until_its_end_was_seen(modules: dict[str, str]) -> None:
    process = start(modules)
    wait_for(lambda: not is_alive(process.pid), "it has ended")

    os.kill(process.pid, signal.SIGTERM)  # reaches nobody else

    assert process.await_end() == 0


def test_a_fresh_child_has_loaded_nothing(modules: dict[str, str], tmp_path: Path) -> None:
    ended = run_python("show", [], tmp_path, modules, fresh=True)

    shown = json.loads(ended.out)
    assert shown["parent"] == os.getpid()
    assert not [name for name in shown["loaded"] if name.startswith("memrelay")]


def test_children_end_with_the_process_of_their_test(
    modules: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "show.log"
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(log), modules["PYTHONPATH"]],
        cwd=CHECKOUT,
        env=environment_without_settings(),
        stdout=subprocess.PIPE,
    )
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    wait_for(lambda: log.exists() and "handles" in log.read_text(), "it has started")
    server = json.loads(log.read_text().splitlines()[0])["parent"]
    assert is_alive(pid)

    starter.kill()
    starter.wait()

    wait_for(lambda: not is_alive(pid) and not is_alive(server), "both have ended")
    starter.stdout.close()
