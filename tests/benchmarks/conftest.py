"""Tests of benchmarks run in `make test-all`: they measure, and no user depends on them."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder as slow."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.slow)
