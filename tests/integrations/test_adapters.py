"""Each adapter with its framework from the registry, in an environment of its own."""

import os
import subprocess

import pytest

from tests.integrations.environments import ADAPTERS, FOLDER, QUIET, environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("name", ADAPTERS)
def test_the_checks_of_the_adapter_pass(name: str) -> None:
    python = environment(name)
    # Only the tests of this folder and what lies in `support` is loaded there.
    options = ["-q", "-c", str(FOLDER / "checks.ini"), "--rootdir", str(FOLDER / name)]

    run = subprocess.run(
        [python, "-m", "pytest", *options, FOLDER / name / "checks.py"],
        cwd=FOLDER / name,
        env=os.environ | QUIET | {"PYTHONPATH": str(FOLDER / "support")},
        capture_output=True,
        text=True,
        timeout=600,
        stdin=subprocess.DEVNULL,
    )

    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    assert " passed" in run.stdout
