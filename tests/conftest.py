"""What all tests have in common."""

import signal

import hypothesis
import pytest

from memrelay.cli.logs import route_to_standard_library
from tests.support.contract import assert_described
from tests.support.http import checks

checks.append(assert_described)
route_to_standard_library()  # so that caplog sees the events
hypothesis.settings.register_profile(
    "any machine", deadline=None
)  # a busy one takes its time; pytest's timeout is the bound
hypothesis.settings.register_profile("long", deadline=None, max_examples=6_000)  # for `make fuzz`
hypothesis.settings.load_profile("any machine")

# Ctrl-C reaches what the tests start, also where they run in the background of a shell, which has
# it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--queries", type=int, default=1000, help="how many queries the fuzz tests ask"
    )
    parser.addoption(
        "--seed", default="", help="the one seed that the long property test is run with"
    )


@pytest.fixture
def queries(request: pytest.FixtureRequest) -> int:
    """How many queries a fuzz test asks, about."""
    count: int = request.config.getoption("--queries")
    return count
