"""The log: one event a line, whatever the values and the errors hold."""
import subprocess
import sys

import pytest

from tests.support.child import CHECKOUT

HOSTILE = "a\nforged=yes\x1b[2J\x9b0m\r\u2028b"
PROGRAM = """
import sys, structlog
from cli.logs import configure_logging
configure_logging("info", sys.argv[1])
log, hostile = structlog.get_logger(), sys.argv[2]
log.info("came", path=hostile, names=[hostile], spaced=hostile + " ")
try:
    raise ValueError(hostile)
except ValueError as error:
    log.error("failed", exc_info=error)
"""


def logged(log_format: str) -> str:
    done = subprocess.run([sys.executable, "-c", PROGRAM, log_format, HOSTILE], cwd=CHECKOUT, capture_output=True, check=True,
                          timeout=120)
    return done.stderr.decode()


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_values_do_nothing_to_a_terminal(log_format: str) -> None:
    assert not set(logged(log_format)) & set("\x1b\x9b\r\u2028")


def test_only_events_begin_a_line() -> None:
    lines = logged("console").splitlines()

    assert [line.split("] ")[1].split()[0] for line in lines if not line.startswith("    ")] == ["came", "failed"]
    assert len([line for line in lines if "forged" in line]) == 2   # the event, and its place in the traceback


def test_in_json_each_event_is_a_line() -> None:
    assert len(logged("json").splitlines()) == 2
