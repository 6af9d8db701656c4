"""The log: one event a line, whatever the values and the errors hold."""

import ast
import json
import subprocess
import sys

import pytest

from memrelay.cli.logs import EVERY_RECORDS
from tests.support.child import CHECKOUT

HOSTILE = "a\nforged=yes\x1b[2J\x9b0m\r\u2028b"
PROGRAM = """
import logging, sys
from memrelay.cli.logs import configure_logging
configure_logging("info", sys.argv[1])
log, hostile = logging.getLogger(), sys.argv[2]
log.info("came", extra={"path": hostile, "names": [hostile], "spaced": hostile + " "})
try:
    raise ValueError(hostile)
except ValueError as error:
    log.error("failed", exc_info=error)
logging.getLogger("some.library").warning("took %d s", 3)
"""


def logged(log_format: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, log_format, HOSTILE],
        cwd=CHECKOUT,
        capture_output=True,
        check=True,
        timeout=120,
    )
    return done.stderr.decode()


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_values_do_nothing_to_a_terminal(log_format: str) -> None:
    assert not set(logged(log_format)) & set("\x1b\x9b\r\u2028")


def test_only_events_begin_a_line() -> None:
    lines = logged("console").splitlines()

    assert [line.split("] ")[1].split()[0] for line in lines if not line.startswith("    ")] == [
        "came",
        "failed",
        "took",
    ]
    assert (
        len([line for line in lines if "forged" in line]) == 2
    )  # the event, and its place in the traceback


def test_in_json_each_event_is_a_line() -> None:
    came, failed, library = map(json.loads, logged("json").splitlines())

    assert (came["event"], came["level"], came["path"], came["names"]) == (
        "came",
        "info",
        HOSTILE,
        [HOSTILE],
    )
    assert failed["exception"].startswith("Traceback") and HOSTILE in failed["exception"]
    assert library["event"] == "took 3 s"


def test_no_datum_of_an_event_is_named_as_what_every_record_has() -> None:
    """logging would raise KeyError, and only when the event comes."""
    calls = [
        (path, call)
        for room in ("bus", "worker", "web", "cli")
        for path in CHECKOUT.joinpath(room).rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
    ]
    named = {
        (path.name, key.value)
        for path, call in calls
        for keyword in call.keywords
        if keyword.arg == "extra" and isinstance(keyword.value, ast.Dict)
        for key in keyword.value.keys
        if isinstance(key, ast.Constant)
    }

    assert len(named) > 50
    assert not [place for place in named if place[1] in EVERY_RECORDS]
