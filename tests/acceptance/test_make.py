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
    "-m venv --clear .venv") rm -rf .venv && mkdir -p .venv/bin && cp "$0" .venv/bin/python;;
    *" -r requirements.lock") [ -z "$FAILS" ];;
    *" -e .") echo "#!$(pwd -P)/.venv/bin/python" > .venv/bin/memrelay;;
esac
"""
NEW_VENV = "-m venv --clear .venv"


@pytest.fixture(name="checkout")
def a_checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "a checkout's é"
    folder.mkdir()
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(CHECKOUT / name, folder)
    (tmp_path / "python").write_text(STAND_IN)
    (tmp_path / "python").chmod(0o755)
    return folder


def python_calls(checkout: Path, **environment: str) -> list[str]:
    """Return the Python calls of `make .venv/.installed`, without the version check."""
    notes = checkout.parent / "notes"
    notes.write_text("")
    given = {
        "PATH": os.environ["PATH"],
        "NOTES": str(notes),
        "PYTHON": str(checkout.parent / "python"),
        **environment,
    }
    subprocess.run(
        ["make", ".venv/.installed"],
        cwd=checkout,
        env=given,
        check="FAILS" not in environment,
        capture_output=True,
    )
    return [line for line in notes.read_text().splitlines() if "ensurepip" not in line]


def test_an_installation_is_not_repeated(checkout: Path) -> None:
    first = python_calls(checkout)

    assert first[0] == NEW_VENV
    assert first[-1].endswith(" -e .")
    assert python_calls(checkout) == []


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
    assert again[0].endswith(" -r requirements.lock")


def test_the_users_python_path_is_ignored(checkout: Path) -> None:
    told = python_calls(checkout, PYTHONHOME="/usr", PYTHONPATH="/elsewhere")

    assert told[0] == NEW_VENV
    assert not [line for line in told if line.startswith("/")]


def test_bytecode_is_kept_whatever_the_user_has_set(checkout: Path) -> None:
    told = python_calls(checkout, PYTHONDONTWRITEBYTECODE="compiled every time")

    assert told[0] == NEW_VENV
    assert not [line for line in told if "compiled every time" in line]
