"""The log: one escaped event per line."""

import ast
import json
import logging
import subprocess
import sys

import pytest

from tests.support.child import CHECKOUT

HOSTILE = "a\nforged=yes\x1b[2J\x9b0m\r\u2028b"
PROGRAM = """
import logging, sys
from memrelay.logs import get_logger
from memrelay.cli.logs import configure_logging
configure_logging("info", sys.argv[1])
log, hostile = get_logger("memrelay.test"), sys.argv[2]
log.info("came", path=hostile, names=[hostile], spaced=hostile + " ")
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
def test_values_are_escaped_for_the_terminal(log_format: str) -> None:
    assert not set(logged(log_format)) & set("\x1b\x9b\r\u2028")


def test_only_events_begin_a_line() -> None:
    lines = logged("console").splitlines()

    assert [line.split("] ")[1].split()[0] for line in lines if not line.startswith("    ")] == [
        "came",
        "failed",
        "took",
    ]
    assert len([line for line in lines if "forged" in line]) == 2


def test_each_json_event_is_one_line() -> None:
    came, failed, library = map(json.loads, logged("json").splitlines())

    assert (came["event"], came["level"], came["path"], came["names"]) == (
        "came",
        "info",
        HOSTILE,
        [HOSTILE],
    )
    assert failed["exception"].startswith("Traceback") and HOSTILE in failed["exception"]
    assert library["event"] == "took 3 s"


def test_no_event_has_data_with_the_name_of_a_record_attribute() -> None:
    """For such a name, logging raises KeyError when the event occurs."""
    attributes = vars(logging.makeLogRecord({})).keys() | {"message", "asctime"}
    calls = [
        (path.name, call)
        for package in ("bus", "memory", "worker", "web", "cli")
        for path in CHECKOUT.joinpath(package).rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("log.")
    ]
    named = {(path, keyword.arg) for path, call in calls for keyword in call.keywords}

    assert len(named) > 50
    assert not [one for one in named if one[1] in attributes - {"exc_info"}]


REPEATS = """
from memrelay.logs import get_logger
from memrelay.cli.logs import COLLAPSE_S, CollapseRepeats, configure_logging
import logging, time
configure_logging("info", "json")
log = get_logger("memrelay.test")
for pause_s in (1, 2, 4):
    log.warning("bus_lost", reason="the disk is full", pause_s=pause_s)
log.warning("bus_lost", reason="refused")
for ident in ("1-0", "2-0"):
    log.error("block_failed", reason="broken", message_id=ident)
real = time.time_ns
logging.time.time_ns = lambda: real() + int((COLLAPSE_S + 1) * 1e9)
logging.time.time = lambda: real() / 1e9 + COLLAPSE_S + 1
log.warning("bus_lost", reason="the disk is full", pause_s=8)
"""


def test_a_repeated_reason_is_logged_once_a_minute_with_its_number() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REPEATS], cwd=CHECKOUT, capture_output=True, check=True, timeout=120
    )
    events = [json.loads(line) for line in done.stderr.decode().splitlines()]

    assert [(one["event"], one["reason"], one.get("repeated")) for one in events] == [
        ("bus_lost", "the disk is full", None),
        ("bus_lost", "refused", None),
        ("block_failed", "broken", None),
        ("block_failed", "broken", None),
        ("bus_lost", "the disk is full", 2),
    ]
