"""What all tests have in common."""
import signal

import pytest

# Ctrl-C reaches what the tests start, also where they run in the background of a shell, which has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--queries", type=int, default=3000, help="how many queries the fuzz tests ask")


@pytest.fixture
def queries(request: pytest.FixtureRequest) -> int:
    """How many queries a fuzz test asks, about."""
    count: int = request.config.getoption("--queries")
    return count
