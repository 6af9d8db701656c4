"""usage: python -m tests.again. Runs the tests that failed once more, one at a time, for a machine
that was too busy for them.

What fails twice has failed. So has what failed once among the tests that break parts while they
work: there a chance in a
hundred is a fault.
"""

import json
import sys
from pathlib import Path

import pytest

FAILED = Path(__file__).resolve().parent.parent / ".pytest_cache" / "v" / "cache" / "lastfailed"
NEVER_AGAIN = ("tests/faults/", "tests/model/")


def run_again() -> int:
    """The exit status."""
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    final = [test for test in failed if test.startswith(NEVER_AGAIN)]
    for test in failed:
        print(f"{'failed' if test in final else 'failed, and runs again'}: {test}", flush=True)
    return 1 if final or not failed else int(pytest.main(failed))


if __name__ == "__main__":
    sys.exit(run_again())
