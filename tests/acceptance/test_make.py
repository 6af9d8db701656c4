"""`make` with a damaged or outdated .venv; a stand-in for Python records its calls."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.child import CHECKOUT

STAND_IN = """#!/bin/sh
echo "$PYTHONHOME$PYTHONPATH$PYTHONDONTWRITEBYTECODE$*" >> "$NOTES"
case "$*" in
    "-m venv "*) rm -rf .venv && mkdir -p .venv/bin && cp "$0" .venv/bin/python;;
    "deploy/install.py "*)
        [ -z "$FAILS" ] && echo "#!$(pwd -P)/.venv/bin/python" > .venv/bin/memrelay;;
esac
"""
NEW_VENV = "-m venv --without-pip --clear .venv"


@pytest.fixture(name="checkout")
def a_checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "a checkout's é"
    folder.mkdir()
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(CHECKOUT / name, folder)
    (tmp_path / "python").write_text(STAND_IN)
    (tmp_path / "python").chmod(0o755)
    return folder


def python_calls(checkout: Path, target: str = ".venv/.installed", **environment: str) -> list[str]:
    """Return the Python calls of a target, without the version check."""
    notes = checkout.parent / "notes"
    notes.write_text("")
    variables = {
        "PATH": os.environ["PATH"],
        "NOTES": str(notes),
        "PYTHON": str(checkout.parent / "python"),
        **environment,
    }
    subprocess.run(
        ["make", target],
        cwd=checkout,
        env=variables,
        check="FAILS" not in environment,
        capture_output=True,
    )
    return [line for line in notes.read_text().splitlines() if "ensurepip" not in line]


def test_an_installation_is_not_repeated(checkout: Path) -> None:
    first = python_calls(checkout)

    assert first[0] == NEW_VENV
    assert first[-1].startswith("deploy/install.py --into .venv ")
    assert python_calls(checkout) == []


def test_the_test_tools_are_installed_only_for_the_tests(checkout: Path) -> None:
    (for_up,) = python_calls(checkout)[1:]
    (for_tests,) = python_calls(checkout, ".venv/.installed-dev")

    assert "--group dev" in for_tests
    assert "--group dev" not in for_up
    assert "--extra postgres" in for_tests
    assert "--extra postgres" not in for_up


def test_an_interrupted_installation_starts_over(checkout: Path) -> None:
    python_calls(checkout, FAILS="yes")

    assert python_calls(checkout)[0] == NEW_VENV
    assert python_calls(checkout) == []


def test_a_moved_or_copied_checkout_gets_a_new_venv(checkout: Path) -> None:
    python_calls(checkout)
    copied, moved = checkout.parent / "copied", checkout.parent / "moved"
    shutil.copytree(checkout, copied)
    checkout.rename(moved)

    assert python_calls(copied)[0] == NEW_VENV
    assert python_calls(moved)[0] == NEW_VENV


def test_a_venv_without_its_python_is_recreated(checkout: Path) -> None:
    python_calls(checkout)
    (checkout / ".venv/bin/python").unlink()
    (checkout / ".venv/bin/python").symlink_to("/nowhere/python3")

    assert python_calls(checkout)[0] == NEW_VENV


def test_new_requirements_are_installed_into_the_existing_venv(checkout: Path) -> None:
    python_calls(checkout)
    os.utime(checkout / "requirements.lock", (2**31, 2**31))

    again = python_calls(checkout)

    assert NEW_VENV not in again
    assert again[0].startswith("deploy/install.py ")


def test_the_users_python_path_is_ignored(checkout: Path) -> None:
    calls = python_calls(checkout, PYTHONHOME="/usr", PYTHONPATH="/elsewhere")

    assert calls[0] == NEW_VENV
    assert not [line for line in calls if line.startswith("/")]


def test_bytecode_is_kept_whatever_the_user_has_set(checkout: Path) -> None:
    calls = python_calls(checkout, PYTHONDONTWRITEBYTECODE="compiled every time")

    assert calls[0] == NEW_VENV
    assert not [line for line in calls if "compiled every time" in line]
