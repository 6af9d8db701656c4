"""Configuration of all tests."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from memrelay.logs import route_to_standard_library
from tests.architecture.source import PACKAGES
from tests.support.contract import Sample, assert_described
from tests.support.forked import share_fork_server
from tests.support.http import checks
from tests.support.postgres import Postgres

imported_short_names: set[str] = set()
# Stores and servers sync every write: a folder in memory saves most of the waiting.
IN_MEMORY, FREE_BYTES = Path("/dev/shm"), 2 << 30
if IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free > FREE_BYTES:
    os.environ.setdefault("TMPDIR", str(IN_MEMORY))
    tempfile.tempdir = None

route_to_standard_library()  # so that caplog sees the events
hypothesis.settings.register_profile(
    "any machine", deadline=None
)  # a busy machine needs more time; pytest's timeout is the limit
hypothesis.settings.register_profile("long", deadline=None, max_examples=1_600)  # for `make fuzz`
hypothesis.settings.load_profile("any machine")

# As in the worker (memrelay/cli/process.py). A full collection of a test process takes longer
# than a template may take.
gc.set_threshold(50_000, 20, 50)

# Ctrl-C must reach the processes that the tests start. A shell ignores it for background jobs.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--queries", type=int, default=1000, help="how many queries the fuzz tests ask"
    )
    parser.addoption(
        "--seed", default="", help="the one seed that the long property test is run with"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Check every answer against the document in `make test-all`, and a sample in `make test`.

    With xdist, start the server from which its processes fork their child processes.
    """
    without_slow = config.option.markexpr == "not slow"
    checks.append(Sample() if without_slow else assert_described)
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        share_fork_server()


@pytest.fixture
def queries(request: pytest.FixtureRequest) -> int:
    """Return the number of queries for fuzz tests."""
    count: int = request.config.getoption("--queries")
    return count


def pytest_collection_finish() -> None:
    """Exempt all modules and tests from later garbage collections."""
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session in which a project module was imported by its short name."""
    imported_short_names.update(name for name in sys.modules if name.split(".")[0] in PACKAGES)
    if hasattr(session.config, "workeroutput"):  # a process of xdist reports to its controller
        session.config.workeroutput["short_names"] = sorted(imported_short_names)
    elif imported_short_names:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if imported_short_names:
        terminalreporter.section("imported by short names")
        terminalreporter.write_line(" ".join(sorted(imported_short_names)))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect the short names that a process of xdist has imported."""
    imported_short_names.update(getattr(node, "workeroutput", {}).get("short_names", ()))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Yield a PostgreSQL server. Each test makes a database in it."""
    with Postgres() as server:
        yield server
